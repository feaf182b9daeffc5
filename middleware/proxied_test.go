// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A gateway is Go's own reverse proxy behind a limiter, on a real server.
func gateway(t *testing.T, limiter *middleware.Middleware, upstream string, h2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(limiter.Handler(proxyTo(t, upstream)))
	if server.EnableHTTP2 = h2; h2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// hintTwice also has fields of ours in its hints.
func hintTwice(w http.ResponseWriter, r *http.Request) {
	hint(w, r)
	w.Header().Set("RateLimit", `"upstream";r=1`)
	hint(w, r)
	w.Header().Del("RateLimit")
}

func expecting(r *http.Request) {
	r.Header.Set("Expect", "100-continue")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("hello")), 5
}

// early collects the 1xx responses of a request.
func early(into *[]textproto.MIMEHeader) option {
	return func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				*into = append(*into, h)
				return nil
			},
		}))
	}
}

var ourFields = []string{middleware.TokenHeader, "RateLimit", "RateLimit-Policy", "Set-Cookie", "Cache-Control"}

// A reverse proxy passes on what its upstream sends before the response, from the same header map, and then clears
// it. What was in the map by then would go out with the 1xx, which nobody keeps, and be missing from the response: an
// honest client would then begin anew on every instance.
func TestProxiedResponsesAreWhole(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			for _, test := range []struct {
				name  string
				early int
				do    []http.HandlerFunc
				send  []option
			}{
				{"plain", 0, nil, nil},
				{"expect", 1, nil, []option{expecting}},
				{"103", 1, []http.HandlerFunc{hint}, nil},
				{"expect and two 103", 3, []http.HandlerFunc{hintTwice}, []option{expecting}},
			} {
				t.Run(proto+" "+m+" "+test.name, func(t *testing.T) {
					cfg := contact(new(clock))
					server := gateway(t, newLimiter(t, cfg), reader(t, test.do...), proto == "HTTP/2.0")
					var hints []textproto.MIMEHeader
					resp := over(t, server.Client(), server.URL, append(test.send, method(m), early(&hints))...)
					require.Equal(t, proto, resp.Proto)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					require.GreaterOrEqual(t, len(hints), test.early)
					for _, h := range hints {
						for _, name := range ourFields {
							require.NotContains(t, h.Values(name), resp.Header.Get(name), name)
						}
					}
					requireWhole(t, resp)
				})
			}
		}
	}
}

// TestProxiedFleet is the promise of the first line of the table: who echoes the newest
// token gets L, whatever stands between.
func TestProxiedFleet(t *testing.T) {
	for name, test := range map[string]struct {
		do   []http.HandlerFunc
		send []option
	}{
		"plain":  {nil, nil},
		"expect": {nil, []option{expecting}},
		"103":    {[]http.HandlerFunc{hint}, nil},
	} {
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+m, func(t *testing.T) {
				now, upstream := new(clock), reader(t, test.do...)
				var gateways [3]*httptest.Server
				for i := range gateways {
					gateways[i] = gateway(t, newLimiter(t, contact(now)), upstream, false)
				}
				client, tok, passed := clientAt(t, "127.0.0.2"), "", 0
				for i := range 30 {
					options := append([]option{method(m), showing(tok)}, test.send...)
					resp := over(t, client, gateways[i%3].URL, options...)
					if resp.StatusCode == http.StatusOK {
						passed++
					}
					if newest := tokenIn(resp); newest != "" {
						tok = newest
					}
				}
				require.Equal(t, 5, passed)
			})
		}
	}
}
