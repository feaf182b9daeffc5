package middleware_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What a page is told before it sends its form must be what becomes of the form.

// postsCostThree makes each POST cost three.
func postsCostThree(r *http.Request) int64 {
	if r.Method == http.MethodPost {
		return 3
	}
	return 1
}

// asked asks whether a request of a cost needs work.
func asked(t testing.TB, h http.Handler, cost int64, options ...option) (needed bool) {
	t.Helper()
	query := func(r *http.Request) { r.URL.RawQuery = fmt.Sprintf("cost=%d", cost) }
	body := bodyOf(t, fetched(h, append(options, query)...))
	needed = !strings.Contains(body, `"needed":false`)
	require.Equal(t, !needed, strings.Contains(body, `"needed":false`), body)
	return needed
}

func TestForeseeKnowsTheCost(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		cfg := challenging(new(clock), mode)
		cfg.Cost = postsCostThree
		h := newSite(t, cfg)
		var carried option = func(*http.Request) {}
		for i := range 6 {
			needed := asked(t, h, 3, carried)
			if needed {
				resp := redeemed(h, solved(t, fetched(h, carried)))
				require.Equal(t, http.StatusOK, resp.StatusCode)
				carried = showing(tokenIn(resp))
				require.False(t, asked(t, h, 3, carried))
			}
			resp := send(h, method(http.MethodPost), carried)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%v: request %d", mode, i)
			if tok := tokenIn(resp); tok != "" {
				carried = showing(tok)
			}
		}
		require.False(t, asked(t, h, -1, carried), "a cost that is none is one")
		require.True(t, asked(t, h, 1<<40, from("192.0.2.200")) || mode == middleware.WhenExhausted)
	}
}

// The held form says what it costs, because the endpoint cannot know.
func TestHeldFormSaysWhatItCosts(t *testing.T) {
	for cost, want := range map[int64]string{1: `<tally-check endpoint="/tally/">`, 3: `<tally-check endpoint="/tally/" cost="3">`} {
		cfg := challenging(new(clock), middleware.Newcomers)
		cfg.Page, cfg.Challenge.Path = middleware.Interstitial{}, "/tally/"
		cfg.Cost = func(*http.Request) int64 { return cost }
		resp := send(newSite(t, cfg), submitting(urlencoded, "a=b"))
		require.Contains(t, bodyOf(t, resp), want)
	}
}

// While the memory is full nobody's token is believed, and a form cannot send a field:
// the page must be told that work is needed, and the proof itself must come by cookie.
func TestFormsPassWhileTheMemoryIsFull(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		cfg := challenging(new(clock), mode)
		cfg.Families, cfg.Challenge.Crowd = 1024, 255
		h := newSite(t, cfg)
		if mode == middleware.WhenExhausted {
			crowd(h, 8000)
		} else {
			for i := range 2000 { // bought families fill it too, at a price
				from := from(fmt.Sprintf("198.51.%d.%d", 100+i/256, i%256))
				send(h, proving(solved(t, fetched(h, from))), from)
			}
		}
		through, wrong := 0, 0
		for i := range 40 {
			me := from(fmt.Sprintf("192.0.2.%d", i))
			var cookies []string
			if asked(t, h, 1, me) {
				resp := redeemed(h, solved(t, fetched(h, me)), me)
				for _, c := range resp.Cookies() {
					cookies = append(cookies, c.Name+"="+c.Value)
				}
				if resp.StatusCode != http.StatusOK { // the cells for sales may be full, too
					continue
				}
			}
			switch resp := send(h, me, with("Cookie", strings.Join(cookies, "; "))); resp.StatusCode {
			case http.StatusOK:
				through++
			default:
				wrong++
			}
		}
		require.Zero(t, wrong, "who was told that it will do, %v", mode)
		if mode == middleware.WhenExhausted {
			require.Greater(t, through, 30)
		}
	}
}
