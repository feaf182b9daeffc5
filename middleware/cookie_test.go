// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestCookieAttributes(t *testing.T) {
	for name, test := range map[string]struct {
		config func(*middleware.Config)
		want   http.Cookie
	}{
		"by default": {func(*middleware.Config) {}, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
		"EmbeddedCookie": {func(cfg *middleware.Config) { cfg.EmbeddedCookie = true }, http.Cookie{
			Name: "__Host-tallystick-contact", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteNoneMode, Partitioned: true,
		}},
		"InsecureCookie": {func(cfg *middleware.Config) { cfg.InsecureCookie = true }, http.Cookie{
			Name: "tallystick-contact", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := contact(now)
			test.config(&cfg)
			now.Advance(45 * time.Second)
			h, _ := limited(t, cfg)
			resp := send(h)
			lines := resp.Header.Values("Set-Cookie")
			require.Len(t, lines, 1)
			require.LessOrEqual(t, len(lines[0]), 1024)
			cookie, err := http.ParseSetCookie(lines[0])
			require.NoError(t, err)
			require.NoError(t, cookie.Valid())
			require.Empty(t, cookie.Unparsed)

			test.want.Value, test.want.Raw = tokenIn(resp), cookie.Raw
			test.want.MaxAge = 120 - 45 // the end of the window after this one
			require.Equal(t, test.want, *cookie)

			again := send(h, with("Cookie", cookie.Name+"="+cookie.Value))
			require.Equal(t, `"contact";r=3;t=15`, again.Header.Get("RateLimit"))
			require.Empty(t, tokenIn(again), "it came by cookie and is answered by cookie")
		})
	}
}

// An insecure name is never read where a secure one is set: a sibling domain or
// a plain-http attacker could have planted it.
func TestOtherCookieNamesAreIgnored(t *testing.T) {
	cfg := contact(new(clock))
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	send(h, with("Cookie", "tallystick-contact="+tok))
	require.Zero(t, h.Decisions.Last().Tokens)
}

// The limiter's cookie is one among others, which it leaves alone.
func TestHandlersCookiesSurvive(t *testing.T) {
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		h := newLimiter(t, contact(new(clock))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "theme", Value: "dark"})
		}))
		resp := send(h, method(m))
		require.ElementsMatch(t, []string{"session", "theme", "__Host-tallystick-contact"}, cookieNames(resp))
	}
}

// docs/operations.md says what a cookie adds to every request of the site.
func TestCookieWeighsWhatThePageSays(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	said := regexp.MustCompile(`\bcookie\b[^.]* (\d+) bytes[^.]* (\d+) more[^.]* limit\b`).FindSubmatch(page)
	require.NotNil(t, said)
	one, err := strconv.Atoi(string(said[1]))
	require.NoError(t, err)
	further, err := strconv.Atoi(string(said[2]))
	require.NoError(t, err)
	for n := range 8 {
		cfg := contact(new(clock))
		for i := range n {
			cfg.Limits = append(cfg.Limits, middleware.Limit{Quota: 1000, Window: time.Hour * time.Duration(i+1)})
		}
		h, _ := limited(t, cfg)
		cookies := send(h).Cookies()
		require.Len(t, cookies, 1)
		require.InDelta(t, one+n*further, len(cookies[0].Name+"="+cookies[0].Value), 20, "%d limits", n+1)
	}
}
