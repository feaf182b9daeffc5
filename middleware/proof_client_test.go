// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// post sends a form and returns the status.
func posting(t testing.TB, c *http.Client, url string) int {
	t.Helper()
	resp, err := c.Post(url, "text/plain", strings.NewReader("words"))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// The Go client against the real thing, in every mode.
func TestClientInEveryMode(t *testing.T) {
	for name, test := range map[string]struct {
		mode     middleware.Mode
		requests int // that must all pass
		solves   int64
	}{
		"WhenExhausted": {middleware.WhenExhausted, 15, 2}, // five shared, five of each tally
		"Newcomers":     {middleware.Newcomers, 10, 2},
		"EveryRequest":  {middleware.EveryRequest, 5, 5},
	} {
		for _, change := range map[string]func(*middleware.Config){
			"address": func(*middleware.Config) {},
			"key": func(cfg *middleware.Config) {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("k"), nil }
			},
			"HeaderOnly": func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
			"quiet":      func(cfg *middleware.Config) { cfg.Quiet = true },
		} {
			t.Run(name, func(t *testing.T) {
				cfg := challenging(new(clock), test.mode)
				change(&cfg)
				h := newSite(t, cfg)
				h.Spy.Serve = func(_ http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(body, []byte("words")) {
						t.Errorf("the body came as %q, %v", body, err)
					}
				}
				server := serve(t, h)
				c, solves := polite(t)
				for i := range test.requests {
					require.Equal(t, http.StatusOK, posting(t, c, server.URL), "request %d", i)
				}
				require.Equal(t, test.solves, solves.Load())
				require.EqualValues(t, test.requests, h.Spy.Calls.Load())
			})
		}
	}
}

// Many requests at once, by one client: none is lost, and no more is bought than the quota makes necessary.
func TestClientInParallel(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), mode)
			cfg.Limits[0].Quota, cfg.Challenge.Crowd = 40, 8
			h := newSite(t, cfg)
			server := serve(t, h)
			c, solves := polite(t)
			inParallel(40, func(int) {
				if status := posting(t, c, server.URL); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			})
			require.EqualValues(t, 40, h.Spy.Calls.Load())
			most := map[middleware.Mode]int64{middleware.WhenExhausted: 0, middleware.Newcomers: 40, middleware.EveryRequest: 40 * 3}[mode]
			require.LessOrEqual(t, solves.Load(), most)
			tallies := map[middleware.Mode]uint64{middleware.Newcomers: priceAfter(1, 8, 16)}[mode]
			if tallies > 0 {
				require.Equal(t, tallies, challengeIn(t, fetched(h, from("127.0.0.1"))).Work, "one was bought for one client")
			}
		})
	}
}

// Several policies of one origin, some of them around each other.
func TestClientWithSeveralPolicies(t *testing.T) {
	now := new(clock)
	policy := func(name string, mode middleware.Mode, quota int64) *middleware.Middleware {
		cfg := challenging(now, mode)
		cfg.Policy, cfg.Limits[0].Quota = name, quota
		return newLimiter(t, cfg)
	}
	signup, feedback, contact := policy("signup", middleware.Newcomers, 3), policy("feedback", middleware.EveryRequest, 6), policy("contact", middleware.WhenExhausted, 2)
	site := policy("site", middleware.Newcomers, 1000)
	mux, s := http.NewServeMux(), new(spy)
	mux.Handle("/signup", signup.Handler(s))
	mux.Handle("/feedback", feedback.Handler(s))
	mux.Handle("/contact", contact.Handler(s))
	mux.Handle("/both", signup.Handler(contact.Handler(s)))
	server := serve(t, site.Handler(mux))
	c, solves := polite(t)
	for range 3 {
		for _, path := range []string{"/signup", "/feedback", "/contact"} {
			require.Equal(t, http.StatusOK, posting(t, c, server.URL+path), path)
		}
	}
	// One for the site, one for signup, one for each feedback, one for contact.
	require.EqualValues(t, 1+1+3+1, solves.Load())
	require.Equal(t, http.StatusOK, posting(t, c, server.URL+"/both"))
	require.EqualValues(t, 6+1, solves.Load(), "one more of signup; contact has some left")
	require.EqualValues(t, 10, s.Calls.Load())
}

// Two clients of one address: a tally belongs to who has its token, and neither uses up the other's.
func TestTwoClientsOfOneAddress(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	server := serve(t, h)
	alice, ofAlice := polite(t)
	bob, ofBob := polite(t)
	for range 5 {
		require.Equal(t, http.StatusOK, posting(t, alice, server.URL))
		require.Equal(t, http.StatusOK, posting(t, bob, server.URL))
	}
	require.EqualValues(t, 1, ofAlice.Load())
	require.EqualValues(t, 1, ofBob.Load())
}

// A client that moves keeps what it bought; where it is bound, it buys again.
func TestClientThatMoves(t *testing.T) {
	for _, bind := range []bool{false, true} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Challenge.BindOwn = bind
		cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
			return address(r.Header.Get("Where")), nil
		}
		server := serve(t, newSite(t, cfg))
		c, solves := polite(t)
		for _, where := range []string{"203.0.113.1", "203.0.113.1", "198.51.100.1", "2001:db8::1"} {
			requireStatus(t, http.StatusOK, over(t, c, server.URL, with("Where", where)))
		}
		require.EqualValues(t, map[bool]int{false: 1, true: 3}[bind], solves.Load())
	}
}

// Sold out: the client is told when, and gives the refusal to its caller.
func TestClientWhenSoldOut(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.Newcomers)
	cfg.Challenge.SalesPerHour = 480
	h := newSite(t, cfg)
	server := serve(t, h)
	h.M.SellOut(now.Now(), middleware.Address(netip.MustParseAddr("127.0.0.1")))
	c, solves := polite(t)
	require.Equal(t, http.StatusTooManyRequests, posting(t, c, server.URL))
	require.Zero(t, solves.Load())
	require.LessOrEqual(t, h.Decisions.Last().RetryAfter, 9*time.Second, "one sale leaks")
	now.Advance(10 * time.Minute)
	require.Equal(t, http.StatusOK, posting(t, c, server.URL))
}
