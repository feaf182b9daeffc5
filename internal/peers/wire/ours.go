// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// The fields of the middleware, as net/http spells them.
const (
	PolicyField    = "Ratelimit-Policy"
	RateLimitField = "Ratelimit"
	TokenField     = "Tallystick-Token"
	CacheField     = "Cache-Control"
	CookieField    = "Set-Cookie"
)

// Ours returns what the middleware answers to a client that has sent a hundred requests and
// shows its newest token, field by field, for as many requests as take turns.
func Ours(limits ...middleware.Limit) (map[string]Field, error) {
	now := time.Unix(1_800_000_010, 0)
	m, err := middleware.New(middleware.Config{
		Policy:         "contact",
		Limits:         limits,
		Secrets:        [][]byte{[]byte(strings.Repeat("0123456789abcdef", 2))},
		TokenTransport: middleware.HeaderAndCookie,
		Now:            func() time.Time { return now },
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodPost, "https://wire.test/contact", http.NoBody)
	fields := make(map[string]Field)
	for i := range 100 + different {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		r.Header[TokenField] = w.Header()[TokenField]
		for _, name := range [...]string{PolicyField, RateLimitField, TokenField, CacheField, CookieField} {
			lines := w.Header()[name]
			if w.Code != http.StatusOK || len(w.Header()) != 5 || len(lines) != 1 {
				return nil, fmt.Errorf("request %d: status %d, %s: %q of %d fields", i, w.Code, name, lines, len(w.Header()))
			}
			if i >= 100 {
				fields[name] = Field{name, append(fields[name].Values, lines[0])}
			}
		}
	}
	for name, f := range fields {
		if changes := name != PolicyField && name != CacheField; changes != (len(slices.Compact(slices.Clone(f.Values))) == different) {
			return nil, fmt.Errorf("%s: %q", name, f.Values)
		}
	}
	return fields, nil
}
