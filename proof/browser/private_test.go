// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// TestPrivatePages: what a handler lets a browser store for its user is stored, and asked about
// with a validator. What comes from there brings no older token back: not its cookie, and not
// its field, because tallyFetch asks where it carries tokens.
func TestPrivatePages(t *testing.T) {
	browser := launch(t)
	for name, test := range map[string]struct {
		fetch  string
		shown  func(*http.Request) string
		news   func(http.Header) string
		served int // of three loads
	}{
		"by cookie": {
			"fetch(url).then((r) => r.status)",
			func(r *http.Request) string {
				c, err := r.Cookie("__Host-tallystick-private")
				if err != nil {
					return ""
				}
				return c.Value
			},
			func(h http.Header) string {
				value, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Set-Cookie"), "__Host-tallystick-private="), ";")
				return value
			},
			1,
		},
		"by field": {
			"tallyFetch(url, {}, { header: true }).then((r) => r.status)",
			func(r *http.Request) string { return r.Header.Get(middleware.TokenHeader) },
			func(h http.Header) string { return h.Get(middleware.TokenHeader) },
			3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			limit := newLimit(t, "private", 100)
			var newest string
			served, unchanged := map[string]int{}, 0
			handler := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served[r.URL.Path]++
				if r.URL.Path == "/private" {
					w.Header().Set("Cache-Control", "private, max-age=300")
					w.Header().Set("ETag", `"1"`)
					if r.Header.Get("If-None-Match") != "" {
						unchanged++
						w.WriteHeader(http.StatusNotModified)
					}
				}
			}))
			note := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if newest != "" && test.shown(r) != newest {
					t.Errorf("%s shows another token than the newest", r.URL.Path)
				}
				handler.ServeHTTP(w, r)
				newest = test.news(w.Header())
			})
			s.mux.Handle("/private", note)
			s.mux.Handle("/other", note)
			b := openAPI(t, browser, s)
			load := func(url string) {
				b.run(`window.url = "` + url + `"`)
				require.Equal(t, 200, eval[int](b, test.fetch))
			}
			for range 3 {
				load("/private")
				load("/other")
			}
			require.Equal(t, map[string]int{"/private": test.served, "/other": 3}, served)
			require.Equal(t, test.served-1, unchanged)
			s.clean()
		})
	}
}
