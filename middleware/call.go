// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
)

// A call is a request under way: an HTTP request, or what a program asks about by [Middleware.Decide]. All
// that the steps take from outside is taken by way of it, so that there is one order of steps
// for both. The steps are its methods, and it carries what one step leaves for the next.
type call struct {
	*engine

	ctx     context.Context
	r       *http.Request // nil outside of HTTP; then id, lines and proof hold
	id      Identity
	cost    int64                     // where Config.Cost is not asked
	price   func(*http.Request) int64 // of the route of r; nil: Config.Cost
	costs   map[string]int64          // of units, where no Unit.Cost is asked
	each    *limiter.Costs            // of all limits; nil: they are the same
	dry     bool                      // nothing is to be charged
	checked bool                      // the log looks at it
	lines   []string                  // that may be lists of tokens
	proof   string                    // "": none is shown

	at    time.Time        // when it is decided, see readClock
	hears hearing          // until peers have heard
	dc    *decisionContext // the decision, and the fields of the answer
	who   subject          // the client
	shown credentials      // what the request shows
}

// readClock reads the clock after what may have waited: a counter, or a function of the program's, which may read a body
// that comes a byte at a time. A request that is decided as of a window that is over would find a count of the present one, and the
// memory would take that for a clock that has stepped back: the client would have its quota again.
func (q *call) readClock() {
	q.at = q.now()
	q.dc.reply.Fields.Now = q.at.UnixMicro()
}

// tokenLines returns lines that may be lists of tokens.
func (q *call) tokenLines() []string {
	if q.r != nil {
		return q.r.Header[TokenHeader]
	}
	return q.lines
}

// proofLines returns lines that may be lists of proofs.
func (q *call) proofLines() []string {
	switch {
	case q.r != nil:
		return q.r.Header[ProofHeader]
	case q.proof != "" && !q.dry:
		return []string{q.proof}
	}
	return nil
}

// priceOf returns what a request of this cost costs on each limit.
func (q *call) priceOf(cost int64) limiter.Price { return limiter.Price{Cost: cost, Each: q.each} }

// early reports whether a request came as TLS early data, by what a proxy says of it.
func (q *call) early() bool { return q.r != nil && q.r.Header.Get("Early-Data") == "1" }

// A hearing says what a request waits for, see [call.untilHeard].
type hearing struct {
	limit gossip.Limit // that it has to wait for, as the last charge said; its Key is 0 if none
	least int64        // how many such requests the limits have room for
	until time.Time    // when it ends, also where one request waits several times
}
