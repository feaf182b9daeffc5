// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/token"
)

// Twins are two instances behind a balancer that sends a client to each in turn. The second differs
// in its secret, or the first in its clock.
type twins struct {
	one, other    *site
	now, ahead    *clock
	first, second *logged

	requests, told int // in all, and by the first line
}

func newTwins(t *testing.T, cfg middleware.Config, secretOfOther string, ahead time.Duration) *twins {
	p := &twins{now: new(clock), ahead: new(clock)}
	p.ahead.Advance(ahead)
	cfg.Now = p.ahead.Now
	p.first = logTo(&cfg)
	p.one = newSite(t, cfg)
	cfg.Now, cfg.Secrets = p.now.Now, [][]byte{secret(secretOfOther)}
	p.second = logTo(&cfg)
	p.other = newSite(t, cfg)
	return p
}

// visitor is the i-th client, of a network of its own, a second after the one before.
func (p *twins) visitor(i int) option {
	p.now.Advance(time.Second)
	p.ahead.Advance(time.Second)
	return from(fmt.Sprintf("203.%d.113.1", i))
}

// codes are those of the lines of both logs.
func (p *twins) codes() []string {
	return append(codesIn(p.first.Lines()), codesIn(p.second.Lines())...)
}

// asked counts requests, and notes which was the first that somebody was told of.
func (p *twins) asked(n int) {
	if p.requests += n; p.told == 0 && len(p.codes()) > 0 {
		p.told = p.requests
	}
}

// What log and metrics say where two instances have different secrets, or clocks, and with which request.
func TestWhatInstancesDisagreeAbout(t *testing.T) {
	for _, scene := range []struct {
		name, secret string
		ahead        time.Duration
		code         string

		tokens, work int // requests
	}{
		{"one secret, one clock", "a", 0, "", 0, 0},
		{"clocks as far apart as they may be", "a", 2 * time.Second, "", 0, 0},
		{"another secret", "b", 0, "secret-unknown", 3*12 + 2, 3*6 + 2}, // of the fourth visitor the second
		{"90 s ahead", "a", 90 * time.Second, "clock-differs", 2, 2},
		{"an hour ahead", "a", time.Hour, "clock-differs", 2, 2},
		{"90 s behind", "a", -90 * time.Second, "clock-differs", 3, 4},
	} {
		t.Run(scene.name+", tokens", func(t *testing.T) {
			cfg := contact(new(clock))
			p := newTwins(t, cfg, scene.secret, scene.ahead)
			admitted := 0
			for i := range 4 {
				who, tok := p.visitor(i), ""
				for n := range 12 {
					h := []http.Handler{p.one, p.other}[n%2]
					resp := send(h, who, showing(tok))
					p.asked(1)
					if tokenIn(resp) != "" {
						tok = tokenIn(resp)
					}
					if i == 0 && resp.StatusCode == http.StatusOK {
						admitted++
					}
				}
			}
			require.Equal(t, scene.tokens, p.told)
			stats := []map[string]uint64{p.one.M.Stats().Tokens, p.other.M.Stats().Tokens}
			t.Logf("%d of 5 admitted; told with request %d: %v %+v", admitted, p.told, p.codes(), stats)
			if scene.code == "" {
				require.Equal(t, 5, admitted)
				require.Zero(t, stats[0]["secret-unknown"]+stats[0]["clock-differs"]+stats[1]["secret-unknown"]+stats[1]["clock-differs"])
				return
			}
			require.Contains(t, p.codes(), scene.code)
			require.Equal(t, 10, admitted, "of one visitor: a quota of each instance")
			switch {
			case scene.secret != "a":
				require.Positive(t, stats[0]["secret-unknown"])
				require.Positive(t, stats[1]["secret-unknown"])
				require.NotEqual(t, p.one.M.Stats().KeyIDs, p.other.M.Stats().KeyIDs)
			case scene.ahead > 0:
				require.Empty(t, p.first.Lines(), "what is old proves nothing")
				require.Positive(t, stats[1]["clock-differs"])
				require.Positive(t, stats[0]["expired"]+stats[0]["accepted"])
			default:
				require.Positive(t, stats[0]["clock-differs"])
			}
			if scene.ahead > 0 {
				_, by, _ := strings.Cut(p.second.Lines()[0], " ahead=")
				by, _, _ = strings.Cut(by, " ")
				ahead, err := time.ParseDuration(by)
				require.NoError(t, err)
				require.LessOrEqual(t, ahead, scene.ahead)
				require.Greater(t, ahead, scene.ahead-time.Minute, "to a window")
			}
		})

		t.Run(scene.name+", work", func(t *testing.T) {
			p := newTwins(t, challenging(new(clock), middleware.Newcomers), scene.secret, scene.ahead)
			reasons := map[middleware.Reason]int{}
			for i := range 4 {
				who := p.visitor(i)
				resp := fetched(p.one, who)
				for n := range 3 { // as our clients do
					proof := solved(t, resp)
					resp = redeemed([]http.Handler{p.other, p.one}[n%2], proof, who)
					p.asked(2) // the challenge of the next may be asked for
					if resp.StatusCode == http.StatusOK {
						break
					}
					reasons[middleware.Reason(problemIn(t, resp).Reason)]++
				}
			}
			require.Equal(t, scene.work, p.told)
			stats := []map[string]uint64{p.one.M.Stats().Proofs, p.other.M.Stats().Proofs}
			t.Logf("told with request %d: %v %v %+v", p.told, p.codes(), reasons, stats)
			if scene.code == "" {
				require.Empty(t, reasons)
				return
			}
			require.Contains(t, p.codes(), scene.code)
			require.Positive(t, reasons[middleware.Reason(scene.code)])
			require.Zero(t, reasons["wrong-solution"], "no solver is broken")
			require.Zero(t, stats[0]["accepted"]+stats[1]["accepted"], "nobody gets in")
			if scene.ahead > 0 {
				require.Contains(t, p.second.Lines()[0], " ahead="+scene.ahead.String()+" ", "a challenge says the second")
			}
		})
	}
}

// A page tells the truth to a visitor whose work was for nothing: nothing of it is the visitor's fault.
func TestPageOfASiteThatIsSetUpWrongly(t *testing.T) {
	const truth = "This site is set up wrongly. Please tell its owner."
	for name, p := range map[string]*twins{
		"another secret": newTwins(t, challenging(new(clock), middleware.Newcomers), "b", 0),
		"another clock":  newTwins(t, challenging(new(clock), middleware.Newcomers), "a", time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			proof := solved(t, fetched(p.one))
			require.Contains(t, bodyOf(t, send(p.other, html, proving(proof))), truth)
			require.NotContains(t, bodyOf(t, send(p.other, html)), truth)
			require.NotContains(t, bodyOf(t, send(p.one, html, proving(proof+"0"))), truth, "that is the client's")
		})
	}
}

// A page that has just bought something, and asks an instance that does not believe it, hears what they
// disagree about, and not that its browser keeps no cookies.
func TestAPurchaseThatAnotherInstanceDoesNotBelieve(t *testing.T) {
	type answer struct {
		Carried bool
		Reason  string
	}
	hears := func(t *testing.T, h http.Handler, shown option) (a answer) {
		require.NoError(t, json.Unmarshal([]byte(bodyOf(t, fetched(h, shown))), &a))
		return a
	}
	for name, mode := range map[string]middleware.Mode{"a tally": middleware.Newcomers, "a request": middleware.EveryRequest} {
		t.Run(name, func(t *testing.T) {
			for want, p := range map[string]*twins{
				"":               newTwins(t, challenging(new(clock), mode), "a", 0),
				"secret-unknown": newTwins(t, challenging(new(clock), mode), "b", 0),
				"clock-differs":  newTwins(t, challenging(new(clock), mode), "a", 2*time.Hour),
			} {
				resp := requireStatus(t, http.StatusOK, redeemed(p.one, solved(t, fetched(p.one))))
				cookie := func(r *http.Request) {
					for _, c := range resp.Cookies() {
						r.AddCookie(c)
					}
				}
				require.Equal(t, answer{Carried: true}, hears(t, p.one, cookie))
				require.Equal(t, answer{want == "", want}, hears(t, p.other, cookie))
				if stats := p.other.M.Stats().Tokens; mode == middleware.Newcomers {
					require.Equal(t, []bool{want == "", want == "secret-unknown", want == "clock-differs"},
						[]bool{stats["accepted"] > 0, stats["secret-unknown"] > 0, stats["clock-differs"] > 0})
				}
				require.Equal(t, answer{}, hears(t, p.other, func(*http.Request) {}), "no cookies: of these nobody can say more")
			}
		})
	}
}

// No client can raise secret-unknown by itself: not by many addresses of a host, nor as one
// customer, nor by many requests.
func TestOneClientRaisesNoAlarmOfSecrets(t *testing.T) {
	of := func(format string) func(i int) string {
		return func(i int) string { return fmt.Sprintf(format, i) }
	}
	key := func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey("customer").For(r.RemoteAddr), nil
	}
	each := func(r *http.Request) (middleware.Identity, error) { return middleware.APIKey(r.RemoteAddr), nil }
	for name, test := range map[string]struct {
		from     func(i int) string
		identity middleware.IdentityFunc
		told     bool
	}{
		"an address":                 {always("203.0.113.1"), nil, false},
		"a /16":                      {of("203.0.%d.1"), nil, false},
		"a /32 of IPv6":              {of("2001:db8:%x::1"), nil, false},
		"a customer, of many things": {of("203.%d.113.1"), key, false},
		"a network of one's own":     {of("10.0.%d.1"), nil, true},
		"four networks in an hour":   {of("203.%d.113.1"), nil, true},
		"four customers":             {of("203.%d.113.1"), each, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			cfg.Identity = test.identity
			other := cfg
			other.Secrets = [][]byte{secret("b")}
			theirs := newSite(t, other)
			h := newSite(t, cfg)
			for i := range 12 {
				now.Advance(2 * time.Second)
				who := from(test.from(i))
				send(h, who, showing(bought(t, theirs, who)))
				send(h, who, proving(solved(t, fetched(theirs, who))))
			}
			require.Equal(t, test.told, h.Log.Count("secret-unknown") > 0, h.Log)
			require.Positive(t, h.M.Stats().Tokens["secret-unknown"])
		})
	}
}

// toldOf has n visitors come, of networks of their own, with tokens of a secret that is retired; each some time after the
// one before. It returns the log.
func toldOf(t *testing.T, n int, after time.Duration) []string {
	now := new(clock)
	cfg := contact(now)
	h := newSite(t, cfg)
	cfg.Secrets = [][]byte{secret("retired")}
	theirs := newSite(t, cfg)
	for i := range n {
		now.Advance(after)
		who := from(fmt.Sprintf("203.%d.113.1", i))
		send(h, who, showing(spend(t, theirs, 1, who)))
	}
	return h.Log.Lines()
}

// A few in a day are tokens that somebody has kept since a secret was retired.
func TestSecretsOfLongAgoAreNotTold(t *testing.T) {
	require.Empty(t, toldOf(t, 12, 20*time.Minute+time.Second))
}

// One request a second is looked at, as for proxies.
func TestOneRequestASecondIsAskedForItsSecret(t *testing.T) {
	require.Empty(t, toldOf(t, 8, 0))
	require.NotEmpty(t, toldOf(t, 8, time.Second))
}

// Counts of tokens, by what came of each.
func TestStatsCountTokens(t *testing.T) {
	now := new(clock)
	cfg := contact(now)
	h := newSite(t, cfg)
	tok := spend(t, h, 1)
	counts := func() map[string]uint64 { return noted(h.M.Stats().Tokens) }
	require.Empty(t, counts())
	send(h, showing(tok))
	require.Equal(t, map[string]uint64{"accepted": 1}, counts())
	send(h, showing(tok), from("203.0.113.2"))
	send(h, showing(tok[:len(tok)-2]+"AA"))
	send(h, showing("garbage"))
	other := cfg
	other.Policy = "contact-2"
	send(h, showing(spend(t, newLimiter(t, other).Handler(new(spy)), 1)))
	require.Equal(t, map[string]uint64{"accepted": 1, "client-changed": 1, "forged": 1}, counts(), "what is of another policy is nothing here")
	cfg.Secrets = [][]byte{secret("b")}
	require.NoError(t, h.M.Reconfigure(cfg))
	decisions := record(&cfg)
	require.NoError(t, h.M.Reconfigure(cfg))
	send(h, showing(tok))
	require.ErrorIs(t, decisions.Last().TokenErr, token.ErrSecret)
	require.Equal(t, map[string]uint64{"accepted": 1, "client-changed": 1, "forged": 1, "secret-unknown": 1}, counts(), "Reconfigure forgets none")
	tok = spend(t, h, 1, from("203.0.113.3"))
	now.Advance(time.Hour)
	send(h, showing(tok), from("203.0.113.3"))
	require.EqualValues(t, 1, counts()["expired"])
	now.Advance(-time.Hour - 2*time.Minute)
	send(h, showing(tok), from("203.0.113.3"))
	require.EqualValues(t, 1, counts()["clock-differs"])
}

// The line at start holds what instances must have in common, and no secret.
func TestConfiguredTellsNoSecret(t *testing.T) {
	var b strings.Builder
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Logger = slog.New(slog.NewTextHandler(&b, nil))
	identity := mustIdentity(middleware.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8")))
	cfg.Identity, cfg.Shadow, cfg.Instances, cfg.Secrets = identity, true, 3, [][]byte{secret("a"), secret("b")}
	m := newLimiter(t, cfg)
	line := b.String()
	for _, word := range []string{"kids=" + strings.Join(m.Stats().KeyIDs, ","), `identity="a field of trusted proxies"`, "instances=3", "challenge=Newcomers work=16", "shadow=true", "tiers=0"} {
		require.Contains(t, line, word)
	}
	for _, s := range cfg.Secrets {
		require.NotContains(t, line, string(s))
		require.NotContains(t, line, fmt.Sprintf("%x", s[:4]))
	}
	b.Reset()
	cfg.Secrets = [][]byte{secret("c"), secret("a")}
	require.NoError(t, m.Reconfigure(cfg))
	require.Contains(t, b.String(), "kids="+strings.Join(m.Stats().KeyIDs, ","), "what is in force now, however soon")
}
