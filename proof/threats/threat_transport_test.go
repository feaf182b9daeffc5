// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestThreatsOfHeaders(t *testing.T) {
	tok, _, _ := genuine(t, 3)
	spent, _, _ := genuine(t, 5)

	t.Run("T19 a header of 600 kB", func(t *testing.T) {
		cfg := contact(new(clock))
		cfg.Limits[0].Quota = 1000
		h, _ := limited(t, cfg)
		without := allocatedBy(h)
		for name, huge := range map[string]option{
			"one token":        showing(strings.Repeat("a", 600<<10)),
			"many tokens":      showing(strings.Repeat(tok+",", 600<<10/len(tok))),
			"many lines":       showing(strings.Split(strings.Repeat(tok+",", 600<<10/len(tok)), ",")...),
			"dots":             showing(strings.Repeat(".", 600<<10)),
			"commas":           showing(strings.Repeat(",", 600<<10)),
			"one cookie":       showingCookie(strings.Repeat("a", 600<<10)),
			"many cookies":     with("Cookie", strings.Repeat("__Host-tallystick-contact="+tok+"; ", 600<<10/len(tok))),
			"many small":       with("Cookie", strings.Repeat("a=b;", 150<<10)),
			"semicolons":       with("Cookie", strings.Repeat(";", 600<<10)),
			"an Accept header": with("Accept", strings.Repeat("A", 600<<10)+";q="+strings.Repeat("9", 1000)),
		} {
			require.LessOrEqual(t, allocatedBy(h, huge), without+8<<10, name)
		}
		blocked, _ := limited(t, contact(new(clock)))
		admitted(blocked, 5, from("192.0.2.1"))
		refused := allocatedBy(blocked)
		for _, accept := range []string{
			strings.Repeat("A", 600<<10), "text/html;q=" + strings.Repeat("0", 600<<10), strings.Repeat("TEXT/HTML;Q=0.1,", 40<<10),
		} {
			require.LessOrEqual(t, allocatedBy(blocked, with("Accept", accept)), refused+8<<10)
		}
	})
	t.Run("T20 low and high, the high one counts", func(t *testing.T) {
		low, _, _ := genuine(t, 1)
		for _, how := range [][]option{
			{showing(low, tok)},
			{showing(tok, low)},
			{showing(low + "," + tok)},
			{showing(tok + " , " + low)},
			{showing("," + low + ",,garbage," + tok + ",")},
			{showingCookie(low, tok)},
			{showingCookie(tok), showingCookie(low)},
			{with("Cookie", "a=b; __Host-tallystick-contact="+low+"; __Host-tallystick-contact="+tok+"; c")},
		} {
			h, _ := limited(t, contact(new(clock)))
			require.Equal(t, `"contact";r=1;t=60`, send(h, how...).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 four tokens are looked at", func(t *testing.T) {
		for n, want := range map[int]string{3: `"contact";r=1;t=60`, 4: `"contact";r=4;t=60`} {
			cfg := contact(new(clock))
			h := newSite(t, cfg)
			forged := tok[:len(tok)-1] + map[bool]string{true: "A", false: "B"}[tok[len(tok)-1] != 'A']
			many := append(strings.Split(strings.Repeat(forged+" ", n), " ")[:n], tok)
			require.Equal(t, want, send(h, showing(strings.Join(many, ","))).Header.Get("RateLimit"), "behind %d forged", n)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "signature")
		}
	})
	t.Run("T20 foreign tokens are skipped without a MAC", func(t *testing.T) {
		other := contact(new(clock))
		other.Policy = "newsletter"
		newsletter, _ := limited(t, other)
		foreign := spend(t, newsletter, 1)
		h, _ := limited(t, contact(new(clock)))
		many := append(strings.Split(strings.Repeat(foreign+" ", 20), " ")[:20], tok)
		require.Equal(t, `"contact";r=1;t=60`, send(h, showing(strings.Join(many, ","))).Header.Get("RateLimit"))
	})
	t.Run("T20 a list that is none", func(t *testing.T) {
		many := append(strings.Split(strings.Repeat("garbage ", 31), " ")[:31], tok)
		long := strings.Repeat("A", 8<<10) + "," + tok
		for shown, want := range map[string]string{
			strings.Join(many, ","):              `"contact";r=1;t=60`,
			"garbage," + strings.Join(many, ","): `"contact";r=4;t=60`, // 32 pieces are glanced at
			long:                                 `"contact";r=4;t=60`, // and no line beyond 8 KiB
		} {
			h, _ := limited(t, contact(new(clock)))
			require.Equal(t, want, send(h, showing(shown)).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 a cookie bomb", func(t *testing.T) {
		h, _ := limited(t, contact(new(clock)))
		bomb := strings.Repeat("a=b; ", 3300) // no more than 16 KiB are searched
		resp := send(h, with("Cookie", bomb+"__Host-tallystick-contact="+tok))
		require.Equal(t, `"contact";r=4;t=60`, resp.Header.Get("RateLimit"), "as if absent")
		require.Equal(t, 4, admitted(h, 10, with("Cookie", bomb)), "which gains nothing")
	})
	t.Run("T20 cookies of other names", func(t *testing.T) {
		for _, name := range []string{
			"tallystick-contact", "__host-tallystick-contact", "__Secure-tallystick-contact",
			"__Host-tallystick-contact2", "__Host-tallystick-contac", "x__Host-tallystick-contact",
		} {
			h, _ := limited(t, contact(new(clock)))
			require.Equal(t, `"contact";r=4;t=60`, send(h, with("Cookie", name+"="+tok)).Header.Get("RateLimit"), name)
			require.Equal(t, `"contact";r=3;t=60`, send(h, with("Cookie", name+tok)).Header.Get("RateLimit"), name)
		}
	})
	t.Run("T21 a stale header and a fresh cookie", func(t *testing.T) {
		low, _, _ := genuine(t, 1)
		for _, how := range [][]option{{showing(low), showingCookie(tok)}, {showing(tok), showingCookie(low)}} {
			h, _ := limited(t, contact(new(clock)))
			resp := send(h, how...)
			require.Equal(t, `"contact";r=1;t=60`, resp.Header.Get("RateLimit"))
			require.Equal(t, tokenIn(resp), cookieIn(resp).Value, "both are brought up to date")
		}
	})
	t.Run("T22 plant a spent token on a victim", func(t *testing.T) {
		for _, how := range []option{showing(spent), showingCookie(spent), showing(spent, spent, spent, spent)} {
			cfg := contact(new(clock))
			h := newSite(t, cfg)
			victim := from("198.51.100.20")
			require.Equal(t, 5, admitted(h, 10, victim, how))
			require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "another identity")
		}
	})
	t.Run("T22 the victim's own token counts beside it", func(t *testing.T) {
		victim := from("198.51.100.20")
		instances := fleet(t, 2, contact(new(clock)))
		own := spend(t, instances[0], 2, victim)
		resp := send(instances[1], victim, showingCookie(spent, own))
		require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"))
	})
}

// TestCarriage shows on which channels a client is answered, for each setting
// and for each channel on which it showed a token.
func TestCarriage(t *testing.T) {
	tok, _, _ := genuine(t, 1)
	shows := map[string][]option{
		"nothing": nil,
		"header":  {showing(tok)},
		"cookie":  {showingCookie(tok)},
		"both":    {showing(tok), showingCookie(tok)},
		"garbage": {showing("garbage"), showingCookie(tok)},
		// What a browser says of a form or a link, and of a script's own request.
		"navigation":             {with("Sec-Fetch-Mode", "navigate")},
		"navigation, a forgery":  {with("Sec-Fetch-Mode", "navigate"), showingCookie(forgery(tok))},
		"navigation, the header": {with("Sec-Fetch-Mode", "navigate"), showing(tok)},
		"fetch":                  {with("Sec-Fetch-Mode", "cors")},
		"no mode":                {with("Sec-Fetch-Mode", "navigate, cors")},
		"two modes":              {with("Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "cors")},
	}
	for _, test := range []struct {
		carriage middleware.TokenTransport
		shown    string
		accepted int
		answered string
	}{
		{middleware.HeaderOrCookie, "nothing", 0, "both"},
		{middleware.HeaderOrCookie, "header", 1, "header"},
		{middleware.HeaderOrCookie, "cookie", 1, "cookie"},
		{middleware.HeaderOrCookie, "both", 2, "both"},
		{middleware.HeaderOrCookie, "garbage", 1, "cookie"},
		{middleware.HeaderOrCookie, "navigation", 0, "cookie"},
		{middleware.HeaderOrCookie, "navigation, a forgery", 0, "cookie"},
		{middleware.HeaderOrCookie, "navigation, the header", 1, "header"},
		{middleware.HeaderOrCookie, "fetch", 0, "both"},
		{middleware.HeaderOrCookie, "no mode", 0, "both"},
		{middleware.HeaderOrCookie, "two modes", 0, "both"},
		{middleware.HeaderOnly, "navigation", 0, "header"},
		{middleware.HeaderOnly, "nothing", 0, "header"},
		{middleware.HeaderOnly, "cookie", 0, "header"},
		{middleware.HeaderOnly, "both", 1, "header"},
		{middleware.CookieOnly, "nothing", 0, "cookie"},
		{middleware.CookieOnly, "header", 0, "cookie"},
		{middleware.CookieOnly, "both", 1, "cookie"},
	} {
		t.Run(fmt.Sprintf("%d/%s", test.carriage, test.shown), func(t *testing.T) {
			cfg := contact(new(clock))
			cfg.TokenTransport = test.carriage
			h := newSite(t, cfg)
			resp := send(h, shows[test.shown]...)
			require.Equal(t, test.accepted, h.Decisions.Last().Tokens)
			require.Equal(t, test.answered != "cookie", tokenIn(resp) != "")
			require.Equal(t, test.answered != "header", cookieIn(resp) != nil)
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		})
	}
}
