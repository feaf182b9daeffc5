// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// limits count requests and tokens: two policies, because a request has one cost. The tokens are inside.
type limits struct{ requests, tokens *middleware.Middleware }

// newLimits makes both of what they have in common, and of who has a key. A bucket of a minute lets a client go on as soon as there is room for its
// next request, as OpenAI's own limits do.
func newLimits(cfg middleware.Config, customer func(key string) (string, bool)) (*limits, error) {
	cfg.Identity = middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if id, ok := customer(key); ok {
			return middleware.APIKey(id), nil
		}
		return middleware.Identity{}, nil // 401
	}, nil)
	cfg.TokenTransport = middleware.MemoryOnly // these clients send none back

	cfg.Policy, cfg.Limits = "requests", []middleware.Limit{
		{Name: "requests", Algorithm: middleware.TokenBucket, Quota: 60, Burst: 60, Window: time.Minute},
		{Name: "requests-month", Quota: 20_000, Window: 30 * 24 * time.Hour},
	}
	cfg.Concurrency = &middleware.Concurrency{Max: 5, MaxHold: 10 * time.Minute}
	requests, err := middleware.New(cfg)

	cfg.Policy, cfg.Limits = "tokens", []middleware.Limit{
		{Name: "tokens", Algorithm: middleware.TokenBucket, Quota: 90_000, Burst: 90_000, Window: time.Minute},
		{Name: "tokens-month", Quota: 10_000_000, Window: 30 * 24 * time.Hour},
	}
	cfg.Concurrency, cfg.Cost = nil, func(r *http.Request) int64 { return callOf(r).estimate }
	tokens, tokensErr := middleware.New(cfg)
	return &limits{requests, tokens}, errors.Join(err, tokensErr)
}

type outerKey struct{}

// Handler has the request that the outer policy has admitted be at hand.
func (l *limits) Handler(next http.Handler) http.Handler {
	inner := l.tokens.Handler(next)
	return l.requests.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outerKey{}, r)))
	}))
}

// standing is how the limits stand after the decisions on a request.
func standing(r *http.Request) (limits []middleware.LimitStatus) {
	if outer, ok := r.Context().Value(outerKey{}).(*http.Request); ok {
		d, _ := middleware.FromContext(outer.Context())
		limits = d.Limits()
	}
	d, _ := middleware.FromContext(r.Context())
	return append(limits, d.Limits()...)
}

// settle says what a request has used.
func settle(r *http.Request, tokens int64) error { return middleware.Settle(r, tokens) }

// forget takes back a request that has come to nothing.
func forget(w http.ResponseWriter, r *http.Request) {
	if outer, ok := r.Context().Value(outerKey{}).(*http.Request); ok {
		_ = middleware.Refund(w, outer)
	}
}
