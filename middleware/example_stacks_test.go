// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// A limit for all clients, and what docs/api.md says of it: in either order one client leaves the others theirs, and
// each instance admits the limit.
func TestLimitForEverybody(t *testing.T) {
	now := new(clock)
	build := func(outside bool) http.Handler {
		all := kit.Must(middleware.New(middleware.Config{
			Policy: "everybody",
			Limits: []middleware.Limit{{Quota: 12, Window: time.Minute}},
			Identity: func(*http.Request) (middleware.Identity, error) {
				return middleware.Principal("everybody"), nil
			},
			TokenTransport: middleware.MemoryOnly, // no client carries the count of all
			Secrets:        [][]byte{secret("a")},
			Now:            now.Now,
		}))(t)
		limit := kit.Must(middleware.New(middleware.Config{
			Policy:  "client",
			Limits:  []middleware.Limit{{Quota: 8, Window: time.Minute}},
			Secrets: [][]byte{secret("a")},
			Now:     now.Now,
		}))(t)
		search := http.Handler(new(spy))
		if outside {
			return all.Handler(limit.Handler(search))
		}
		mux := http.NewServeMux()
		mux.Handle("/search", limit.Handler(all.Handler(search)))
		return mux
	}
	for _, outside := range []bool{true, false} {
		t.Run(fmt.Sprint(outside), func(t *testing.T) {
			instances := []http.Handler{build(outside), build(outside)}
			for range 2 {
				passed := 0
				for _, h := range instances {
					one, another := echoing(h), echoing(h)
					require.Equal(t, 8, admitted(one, 14, path("/search"), from("203.0.113.1")))
					require.Equal(t, 4, admitted(another, 14, path("/search"), from("203.0.113.2")))
					passed += 8 + 4 + admitted(h, 9, path("/search"), from("203.0.113.3"))
				}
				require.Equal(t, 2*12, passed, "N·L")
				now.Advance(2 * time.Minute)
			}
		})
	}
}

// Work first, and a cap a day: what asks for work is not charged to the cap, in either order.
func TestWorkFirstAndACap(t *testing.T) {
	for _, outside := range []bool{true, false} {
		t.Run(fmt.Sprint(outside), func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Limits = []middleware.Limit{{Quota: 3, Window: 10 * time.Minute}}
			limit := newLimiter(t, cfg)
			most := kit.Must(middleware.New(middleware.Config{
				Policy:  "signup-day",
				Limits:  []middleware.Limit{{Quota: 20, Window: 24 * time.Hour}},
				Secrets: [][]byte{secret("a")},
				Now:     now.Now,
			}))(t)
			mux, signup := http.NewServeMux(), new(spy)
			mux.Handle("POST /signup", limit.Handler(most.Handler(signup)))
			if outside {
				mux = http.NewServeMux()
				mux.Handle("POST /signup", most.Handler(limit.Handler(signup)))
			}
			mux.Handle("/tally/", limit.Endpoints())
			require.Zero(t, admitted(mux, 30, path("/signup")), "nobody has worked")
			for i := range 40 {
				resp := send(mux, path("/signup"), showing(bought(t, mux, from(fmt.Sprintf("198.51.%d.1", i)))))
				tokens := resp.Header.Values(middleware.TokenHeader)
				admitted(mux, 3, path("/signup"), showing(tokens...))
			}
			require.EqualValues(t, 20, signup.Calls.Load())
		})
	}
}
