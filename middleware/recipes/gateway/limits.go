// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// newLimits makes the limits. The program gives cfg for its instances, and customer for its keys. A bucket of a minute
// lets a client go on as soon as there is room for its next request, as OpenAI's own limits do.
func newLimits(cfg middleware.Config, customer func(key string) (string, bool)) (*middleware.Middleware, error) {
	cfg.Policy = "model"
	cfg.Identity = middleware.ValidatedKey(func(r *http.Request) (middleware.Identity, error) {
		key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if id, ok := customer(key); ok {
			return middleware.APIKey(id), nil
		}
		return middleware.Identity{}, nil // 401
	}, nil)
	cfg.Limits = []middleware.Limit{
		{Name: "requests", Algorithm: middleware.TokenBucket, Quota: 60, Burst: 60, Window: time.Minute},
		{Name: "requests-month", Quota: 20_000, Calendar: "month"},
		{Name: "tokens", Algorithm: middleware.TokenBucket, Quota: 90_000, Burst: 90_000, Window: time.Minute},
		{Name: "tokens-month", Quota: 10_000_000, Calendar: "month"},
	}
	cfg.Units = map[string]middleware.Unit{"tokens": {
		Limits: []string{"tokens", "tokens-month"},
		Cost:   func(r *http.Request) int64 { return callOf(r).estimate },
	}}
	cfg.Concurrency = &middleware.Concurrency{Max: 5, MaxHold: 10 * time.Minute}
	cfg.TokenTransport = middleware.MemoryOnly // these clients send none back
	return middleware.New(cfg)
}
