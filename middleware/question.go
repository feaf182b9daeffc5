// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"net/http"
)

// A question is what is decided about: an HTTP request, or what a program asks about by
// [Middleware.Decide]. All that the steps take from outside is taken by way of it, so that there
// is one order of steps for both.
type question struct {
	ctx   context.Context
	r     *http.Request // nil outside of HTTP; then the rest holds
	id    Identity
	cost  int64                     // where Config.Cost is not asked
	price func(*http.Request) int64 // of the route of r; nil: Config.Cost
	dry   bool                      // nothing is to be charged
	ask   *Ask                      // nil: nothing is shown
}

// over is the question about an HTTP request.
func over(r *http.Request) *question { return &question{ctx: r.Context(), r: r, cost: 1} }

// tokens returns lines that may be lists of tokens.
func (q *question) tokens() []string {
	switch {
	case q.r != nil:
		return q.r.Header[TokenHeader]
	case q.ask != nil:
		return q.ask.Tokens
	}
	return nil
}

// proofs returns lines that may be lists of proofs.
func (q *question) proofs() []string {
	switch {
	case q.r != nil:
		return q.r.Header[ProofHeader]
	case q.ask != nil && q.ask.Proof != "":
		return []string{q.ask.Proof}
	}
	return nil
}

// early reports whether a request came as TLS early data, by what a proxy says of it.
func (q *question) early() bool { return q.r != nil && q.r.Header.Get("Early-Data") == "1" }
