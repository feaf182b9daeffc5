// SPDX-License-Identifier: Apache-2.0

package threats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/handlers"
)

func TestThreatsOfHeaders(t *testing.T) {
	tok, _, _ := handlers.Genuine(t, 3)
	spent, _, _ := handlers.Genuine(t, 5)

	t.Run("T19 a header of 600 kB", func(t *testing.T) {
		cfg := handlers.Contact(new(handlers.Clock))
		cfg.Limits[0].Quota = 1000
		h, _ := handlers.Limited(t, cfg)
		without := handlers.AllocatedBy(h)
		for name, huge := range map[string]handlers.Option{
			"one token":        handlers.Showing(strings.Repeat("a", 600<<10)),
			"many tokens":      handlers.Showing(strings.Repeat(tok+",", 600<<10/len(tok))),
			"many lines":       handlers.Showing(strings.Split(strings.Repeat(tok+",", 600<<10/len(tok)), ",")...),
			"dots":             handlers.Showing(strings.Repeat(".", 600<<10)),
			"commas":           handlers.Showing(strings.Repeat(",", 600<<10)),
			"one cookie":       handlers.ShowingCookie(strings.Repeat("a", 600<<10)),
			"many cookies":     handlers.With("Cookie", strings.Repeat("__Host-tallystick-contact="+tok+"; ", 600<<10/len(tok))),
			"many small":       handlers.With("Cookie", strings.Repeat("a=b;", 150<<10)),
			"semicolons":       handlers.With("Cookie", strings.Repeat(";", 600<<10)),
			"an Accept header": handlers.With("Accept", strings.Repeat("A", 600<<10)+";q="+strings.Repeat("9", 1000)),
		} {
			require.LessOrEqual(t, handlers.AllocatedBy(h, huge), without+8<<10, name)
		}
		blocked, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		handlers.Admitted(blocked, 5, handlers.From("192.0.2.1"))
		refused := handlers.AllocatedBy(blocked)
		for _, accept := range []string{
			strings.Repeat("A", 600<<10), "text/html;q=" + strings.Repeat("0", 600<<10), strings.Repeat("TEXT/HTML;Q=0.1,", 40<<10),
		} {
			require.LessOrEqual(t, handlers.AllocatedBy(blocked, handlers.With("Accept", accept)), refused+8<<10)
		}
	})
	t.Run("T20 low and high, the high one counts", func(t *testing.T) {
		low, _, _ := handlers.Genuine(t, 1)
		for _, how := range [][]handlers.Option{
			{handlers.Showing(low, tok)},
			{handlers.Showing(tok, low)},
			{handlers.Showing(low + "," + tok)},
			{handlers.Showing(tok + " , " + low)},
			{handlers.Showing("," + low + ",,garbage," + tok + ",")},
			{handlers.ShowingCookie(low, tok)},
			{handlers.ShowingCookie(tok), handlers.ShowingCookie(low)},
			{handlers.With("Cookie", "a=b; __Host-tallystick-contact="+low+"; __Host-tallystick-contact="+tok+"; c")},
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, `"contact";r=1;t=60`, handlers.Send(h, how...).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 four tokens are looked at", func(t *testing.T) {
		for n, want := range map[int]string{3: `"contact";r=1;t=60`, 4: `"contact";r=4;t=60`} {
			cfg := handlers.Contact(new(handlers.Clock))
			h := handlers.NewSite(t, cfg)
			forged := tok[:len(tok)-1] + map[bool]string{true: "A", false: "B"}[tok[len(tok)-1] != 'A']
			many := append(strings.Split(strings.Repeat(forged+" ", n), " ")[:n], tok)
			require.Equal(t, want, handlers.Send(h, handlers.Showing(strings.Join(many, ","))).Header.Get("RateLimit"), "behind %d forged", n)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "signature")
		}
	})
	t.Run("T20 foreign tokens are skipped without a MAC", func(t *testing.T) {
		other := handlers.Contact(new(handlers.Clock))
		other.Policy = "newsletter"
		newsletter, _ := handlers.Limited(t, other)
		foreign := handlers.Spend(t, newsletter, 1)
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		many := append(strings.Split(strings.Repeat(foreign+" ", 20), " ")[:20], tok)
		require.Equal(t, `"contact";r=1;t=60`, handlers.Send(h, handlers.Showing(strings.Join(many, ","))).Header.Get("RateLimit"))
	})
	t.Run("T20 a list that is none", func(t *testing.T) {
		many := append(strings.Split(strings.Repeat("garbage ", 31), " ")[:31], tok)
		long := strings.Repeat("A", 8<<10) + "," + tok
		for shown, want := range map[string]string{
			strings.Join(many, ","):              `"contact";r=1;t=60`,
			"garbage," + strings.Join(many, ","): `"contact";r=4;t=60`, // 32 pieces are glanced at
			long:                                 `"contact";r=4;t=60`, // and no line beyond 8 KiB
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, want, handlers.Send(h, handlers.Showing(shown)).Header.Get("RateLimit"))
		}
	})
	t.Run("T20 a cookie bomb", func(t *testing.T) {
		h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
		bomb := strings.Repeat("a=b; ", 3300) // no more than 16 KiB are searched
		resp := handlers.Send(h, handlers.With("Cookie", bomb+"__Host-tallystick-contact="+tok))
		require.Equal(t, `"contact";r=4;t=60`, resp.Header.Get("RateLimit"), "as if absent")
		require.Equal(t, 4, handlers.Admitted(h, 10, handlers.With("Cookie", bomb)), "which gains nothing")
	})
	t.Run("T20 cookies of other names", func(t *testing.T) {
		for _, name := range []string{
			"tallystick-contact", "__host-tallystick-contact", "__Secure-tallystick-contact",
			"__Host-tallystick-contact2", "__Host-tallystick-contac", "x__Host-tallystick-contact",
		} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			require.Equal(t, `"contact";r=4;t=60`, handlers.Send(h, handlers.With("Cookie", name+"="+tok)).Header.Get("RateLimit"), name)
			require.Equal(t, `"contact";r=3;t=60`, handlers.Send(h, handlers.With("Cookie", name+tok)).Header.Get("RateLimit"), name)
		}
	})
	t.Run("T21 a stale header and a fresh cookie", func(t *testing.T) {
		low, _, _ := handlers.Genuine(t, 1)
		for _, how := range [][]handlers.Option{{handlers.Showing(low), handlers.ShowingCookie(tok)}, {handlers.Showing(tok), handlers.ShowingCookie(low)}} {
			h, _ := handlers.Limited(t, handlers.Contact(new(handlers.Clock)))
			resp := handlers.Send(h, how...)
			require.Equal(t, `"contact";r=1;t=60`, resp.Header.Get("RateLimit"))
			require.Equal(t, handlers.TokenIn(resp), handlers.CookieIn(resp).Value, "both are brought up to date")
		}
	})
	t.Run("T22 plant a spent token on a victim", func(t *testing.T) {
		for _, how := range []handlers.Option{handlers.Showing(spent), handlers.ShowingCookie(spent), handlers.Showing(spent, spent, spent, spent)} {
			cfg := handlers.Contact(new(handlers.Clock))
			h := handlers.NewSite(t, cfg)
			victim := handlers.From("198.51.100.20")
			require.Equal(t, 5, handlers.Admitted(h, 10, victim, how))
			require.Equal(t, middleware.OverLimit, h.Decisions.Last().Reason)
			require.ErrorContains(t, h.Decisions.Last().TokenErr, "another identity")
		}
	})
	t.Run("T22 the victim's own token counts beside it", func(t *testing.T) {
		victim := handlers.From("198.51.100.20")
		instances := handlers.Fleet(t, 2, handlers.Contact(new(handlers.Clock)))
		own := handlers.Spend(t, instances[0], 2, victim)
		resp := handlers.Send(instances[1], victim, handlers.ShowingCookie(spent, own))
		require.Equal(t, `"contact";r=2;t=60`, resp.Header.Get("RateLimit"))
	})
}

// TestCarriage shows on which channels a client is answered, for each setting
// and for each channel on which it showed a token.
func TestCarriage(t *testing.T) {
	tok, _, _ := handlers.Genuine(t, 1)
	shows := map[string][]handlers.Option{
		"nothing": nil,
		"header":  {handlers.Showing(tok)},
		"cookie":  {handlers.ShowingCookie(tok)},
		"both":    {handlers.Showing(tok), handlers.ShowingCookie(tok)},
		"garbage": {handlers.Showing("garbage"), handlers.ShowingCookie(tok)},
		// What a browser says of a form or a link, and of a script's own request.
		"navigation":             {handlers.With("Sec-Fetch-Mode", "navigate")},
		"navigation, a forgery":  {handlers.With("Sec-Fetch-Mode", "navigate"), handlers.ShowingCookie(handlers.Forgery(tok))},
		"navigation, the header": {handlers.With("Sec-Fetch-Mode", "navigate"), handlers.Showing(tok)},
		"fetch":                  {handlers.With("Sec-Fetch-Mode", "cors")},
		"no mode":                {handlers.With("Sec-Fetch-Mode", "navigate, cors")},
		"two modes":              {handlers.With("Sec-Fetch-Mode", "navigate", "Sec-Fetch-Mode", "cors")},
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
			cfg := handlers.Contact(new(handlers.Clock))
			cfg.TokenTransport = test.carriage
			h := handlers.NewSite(t, cfg)
			resp := handlers.Send(h, shows[test.shown]...)
			require.Equal(t, test.accepted, h.Decisions.Last().Tokens)
			require.Equal(t, test.answered != "cookie", handlers.TokenIn(resp) != "")
			require.Equal(t, test.answered != "header", handlers.CookieIn(resp) != nil)
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		})
	}
}
