// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

// TestWhatWasPaidForIsNotLost: a client that proves its work with the request itself gets its token by the response
// to that, and by nothing else. If it is lost the client pays again for each request, at a price that rises.
func TestWhatWasPaidForIsNotLost(t *testing.T) {
	replying := func(change func(w http.ResponseWriter)) func(*testing.T) http.Handler {
		return func(t *testing.T) http.Handler {
			h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.Newcomers))
			h.Spy.Serve = func(w http.ResponseWriter, _ *http.Request) { change(w) }
			return h
		}
	}
	field := func(name, value string) func(*testing.T) http.Handler {
		return replying(func(w http.ResponseWriter) { w.Header().Set(name, value) })
	}
	for name, make := range map[string]func(*testing.T) http.Handler{
		"public":                field("Cache-Control", "public, max-age=60"),
		"public, revalidated":   field("Cache-Control", "public, max-age=0, must-revalidate"),
		"a CDN's own field":     field("CDN-Cache-Control", "max-age=60"),
		"Expires 0":             field("Expires", "0"),
		"Expires in the past":   field("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"),
		"the handler clears":    replying(func(w http.ResponseWriter) { clear(w.Header()) }),
		"nothing in particular": replying(func(http.ResponseWriter) {}),
		"a proxy and an early hint": func(t *testing.T) http.Handler {
			h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), middleware.Newcomers))
			h.Spy.Serve = handlers.ProxyTo(t, handlers.Reader(t, handlers.Hint)).ServeHTTP
			return h
		},
		"a limiter in front of a proxy": func(t *testing.T) http.Handler {
			app := handlers.Challenging(new(handlers.Clock), middleware.Newcomers)
			app.TokenTransport = middleware.HeaderOnly
			edge := handlers.Contact(new(handlers.Clock))
			edge.Policy, edge.Limits[0].Quota = "edge", 1000
			return handlers.NewLimiter(t, edge).Handler(handlers.ProxyTo(t, handlers.Serve(t, handlers.NewSite(t, app)).URL))
		},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+" "+m, func(t *testing.T) {
				server := handlers.Serve(t, make(t))
				c, solves := handlers.Polite(t)
				for i := range 10 {
					resp := handlers.RequireStatus(t, http.StatusOK, handlers.Over(t, c, server.URL, handlers.Method(m)), i)
					if m == http.MethodGet && handlers.TokenIn(resp) != "" { // of others the handler has the last word
						require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
						require.Empty(t, resp.Header.Get("CDN-Cache-Control"), "which would be heard before that")
					}
				}
				require.LessOrEqual(t, solves.Load(), int64(2), "five requests for each proof")
			})
		}
	}
}

// TestThreatsOfPlantedCookies: any sibling domain may set an ordinary cookie whose value
// spells our name, as often as it fits.
func TestThreatsOfPlantedCookies(t *testing.T) {
	for mode, suffix := range map[middleware.Mode]string{middleware.Newcomers: "", middleware.EveryRequest: ".proof.0badcafe"} {
		h := handlers.NewSite(t, handlers.Challenging(new(handlers.Clock), mode))
		planted := "x=" + strings.Repeat("__Host-tallystick-contact"+suffix, 300)
		var cousins []string // policies whose names begin like this one
		for i := range 40 {
			cousins = append(cousins, "__Host-tallystick-contact"+suffix+"-"+strings.Repeat("a", i)+"=eyJ")
		}
		for _, before := range []string{planted, strings.Join(cousins, "; ")} {
			resp := handlers.RequireStatus(t, http.StatusOK, handlers.Redeemed(h, handlers.Solved(t, handlers.Fetched(h))))
			mine := resp.Cookies()[0]
			require.Equal(t, http.StatusOK, handlers.Send(h, handlers.With("Cookie", before+"; "+mine.Name+"="+mine.Value)).StatusCode)
		}
	}
}
