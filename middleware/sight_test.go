// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// Whether a token is known by sight or read makes no difference: the same trace gives the same answers, decisions and
// counts. Clients of several tiers and things show any of the tokens that anybody was ever sent, also broken ones, by
// header and cookie; costs are given back and settled; secrets and limits change; instances start anew, and clocks step.
func TestKnownBySightIsRead(t *testing.T) {
	seeds := uint64(12)
	if !kit.Whole() {
		seeds = 2
	}
	for name, limits := range map[string][]middleware.Limit{
		"fixed":   {{Algorithm: middleware.FixedWindow, Quota: 4, Window: 4 * time.Second}},
		"sliding": {{Quota: 5, Window: 3 * time.Second}, {Name: "long", Quota: 6, Window: 4 * time.Second}},
		"buckets": {{Algorithm: middleware.TokenBucket, Quota: 10, Window: 15 * time.Second, Burst: 4}},
		"both":    {{Quota: 5, Window: 4 * time.Second}, {Name: "bucket", Algorithm: middleware.TokenBucket, Quota: 4, Window: 6 * time.Second}},
	} {
		for kind, change := range map[string]func(*middleware.Config){
			"plain": func(*middleware.Config) {},
			"shadow": func(cfg *middleware.Config) {
				cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "tried", Quota: 2, Window: 4 * time.Second, Shadow: true})
			},
			"cookie": func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
			"outcome": func(cfg *middleware.Config) {
				cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "wrong", Quota: 4, Window: 4 * time.Second})
				cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"wrong"}}
			},
			"exhausted": func(cfg *middleware.Config) { cfg.Challenge = &middleware.Challenge{Work: 64, Path: "/tally/"} },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				known := 0
				for seed := range seeds {
					known += playKnown(t, seed, limits, change)
				}
				require.Positive(t, known)
			})
		}
	}
}

// playKnown plays one trace, and returns how many tokens were shown that were known.
func playKnown(t *testing.T, seed uint64, limits []middleware.Limit, change func(*middleware.Config)) (known int) {
	c, rnd, secrets := new(clock), random(seed), [][]byte{secret("a")}
	cfg := func() middleware.Config {
		cfg := contact(c)
		cfg.Secrets, cfg.Limits = slices.Clone(secrets), slices.Clone(limits)
		change(&cfg)
		large := slices.Clone(cfg.Limits)
		large[0].Quota *= 2
		cfg.Tiers = map[string][]middleware.Limit{"pro": large}
		cfg.Identity = func(r *http.Request) (middleware.Identity, error) {
			id, err := middleware.PeerAddress(r)
			id.Tier = r.Header.Get("Tier")
			return id.For(r.Header.Get("Thing")), err
		}
		cfg.Cost = func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
			return n
		}
		return cfg
	}
	var (
		all       [2]*middleware.Middleware // the second reads always
		decisions [2]*recorded
	)
	start := func(anew bool) {
		for i := range all {
			cfg := cfg()
			if anew {
				decisions[i] = record(&cfg)
				all[i] = newLimiter(t, cfg)
			} else {
				decisions[i].Hear(&cfg)
				require.NoError(t, all[i].Reconfigure(cfg))
			}
		}
		all[1].ReadAlways()
	}
	start(true)
	afterwards := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Then") {
		case "refund":
			_ = middleware.Refund(w, r) // there may be nothing to give back
		case "settle":
			_ = middleware.Settle(r, 3)
		}
	})
	tokens := []string{"", "x"}
	newest := map[string]string{}
	for step := range 150 {
		c.Advance(time.Duration(rnd.IntN(900)) * time.Millisecond)
		switch rnd.IntN(40) {
		case 0:
			c.Advance(-time.Duration(rnd.IntN(3000)) * time.Millisecond)
		case 1:
			secrets = append([][]byte{secret(fmt.Sprint(step))}, secrets[:min(len(secrets), 1+rnd.IntN(2))]...)
			start(false)
		case 2:
			limits = slices.Clone(limits)
			limits[0].Quota = 3 + rnd.Int64N(4)
			start(false)
		case 3:
			c.Advance(15 * time.Second) // the newest token has expired, whose cells nobody has taken
		case 4:
			start(rnd.IntN(2) == 0)
		}
		addr := []string{"203.0.113.1", "2001:db8::1"}[rnd.IntN(2)]
		thing, tier := []string{"", "", "shop"}[rnd.IntN(3)], []string{"", "", "pro"}[rnd.IntN(3)]
		id := address(addr).For(thing)
		id.Tier = tier
		shown := []string{newest[addr+thing]}
		for range rnd.IntN(3) * rnd.IntN(2) {
			shown = append(shown, tokens[rnd.IntN(len(tokens))])
		}
		if i := rnd.IntN(4 * len(shown)); i < len(shown) && len(shown[i]) > 100 {
			b := []byte(shown[i])
			b[len(b)-1-rnd.IntN(len(b)/2)]++
			shown[i] = string(b)
		}
		rnd.Shuffle(len(shown), func(i, j int) { shown[i], shown[j] = shown[j], shown[i] })
		if _, ok := all[0].KnowsBySight(id, shown[0]); ok {
			known++
		}
		shows := []func(...string) option{showing, showingCookie}[rnd.IntN(2)]
		then := []string{"", "", "", "refund", "settle"}[rnd.IntN(5)]
		at := fmt.Sprintf("seed %d, step %d: %s %s %s, then %s", seed, step, addr, tier, thing, then)
		var got [2]*http.Response
		for i, m := range all {
			got[i] = send(m.Handler(afterwards), from(addr), shows(shown...),
				with("Tier", tier, "Thing", thing, "Then", then, "Cost", strconv.Itoa(1+step%2)))
			for _, byLot := range []string{middleware.ChallengeHeader, "Retry-After"} {
				got[i].Header.Del(byLot)
			}
		}
		require.Equal(t, got[1].StatusCode, got[0].StatusCode, at)
		require.Equal(t, got[1].Header, got[0].Header, at)
		require.Equal(t, all[1].Stats().Tokens, all[0].Stats().Tokens, at)
		d, want := decisions[0].Last(), decisions[1].Last()
		require.Equal(t, want.Tokens, d.Tokens, at)
		require.Equal(t, want.TokenErr, d.TokenErr, at)
		require.Equal(t, want.Reason, d.Reason, at)
		require.Equal(t, want.Limits(), d.Limits(), at)
		tok := tokenIn(got[0])
		if cookie := cookieIn(got[0]); cookie != nil {
			tok = cookie.Value
		}
		if tok != "" {
			tokens, newest[addr+thing] = append(tokens, tok), tok
		}
	}
	return known
}

// What was given back to the last is not in a token, nor its window: whether the token is known or read, a clock that
// steps back tells nothing of it.
func TestKnownBySightSaysWhatItSays(t *testing.T) {
	var ahead [2]any
	for i := range ahead {
		c := new(clock)
		cfg := contact(c)
		cfg.Limits = []middleware.Limit{{Name: "short", Quota: 5, Window: 4 * time.Second}, {Name: "long", Quota: 5, Window: time.Hour}}
		m := newLimiter(t, cfg)
		if i == 1 {
			m.ReadAlways()
		}
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Then") != "" {
				require.NoError(t, middleware.Refund(w, r))
			}
		}))
		tok := tokenIn(send(h, from("203.0.113.1")))
		c.Advance(20 * time.Second)
		tok = tokenIn(send(h, from("203.0.113.1"), showing(tok), with("Then", "refund")))
		c.Advance(-6 * time.Second)
		send(h, from("203.0.113.1"), showing(tok))
		ahead[i] = m.Stats().Tokens
	}
	require.Equal(t, ahead[1], ahead[0])
}

// Who was never wrong has no cell in a limit that counts by outcome, and its token says nothing of it: it is known all
// the same.
func TestKnownBySightWithoutACell(t *testing.T) {
	c := new(clock)
	cfg := contact(c)
	cfg.Limits = append(cfg.Limits, middleware.Limit{Name: "wrong", Quota: 3, Window: time.Minute})
	cfg.ByOutcome = &middleware.ByOutcome{Limits: []string{"wrong"}, Free: []int{http.StatusOK}}
	m := newLimiter(t, cfg)
	h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	tok := tokenIn(send(h, from("203.0.113.1")))
	tok = tokenIn(send(h, from("203.0.113.1"), showing(tok)))
	_, known := m.KnowsBySight(address("203.0.113.1"), tok)
	require.True(t, known)
}
