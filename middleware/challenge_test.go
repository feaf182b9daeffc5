// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// Every refusal of a Challenge is one named error that says what is permitted.
func TestBadChallenges(t *testing.T) {
	type challenge = middleware.Challenge
	every := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &challenge{Mode: middleware.EveryRequest}
			spoil(cfg.Challenge)
		}
	}
	with := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) { cfg.Challenge = new(challenge); spoil(cfg.Challenge) }
	}
	busy := func(spoil func(*challenge)) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &challenge{Mode: middleware.WhenBusy}
			spoil(cfg.Challenge)
		}
	}
	bad := func(path string) func(*middleware.Config) {
		return with(func(c *challenge) { c.Path = path })
	}
	requireMistakes(t, contact, []mistake{
		{"Challenge.Mode", with(func(c *challenge) { c.Mode = middleware.EveryRequest + 1 }), "WhenExhausted, WhenBusy, Newcomers or EveryRequest"},
		{"Challenge.Mode", with(func(c *challenge) { c.Mode = middleware.WhenBusy }), "BusyPerSecond, BusyAtOnce or both"},
		{"Challenge.BusyPerSecond", busy(func(c *challenge) { c.BusyPerSecond = -1 }), "from 1 to 1000000, or 0 for not set, not -1"},
		{"Challenge.BusyPerSecond", busy(func(c *challenge) { c.BusyPerSecond = 1_000_001 }), "from 1 to 1000000"},
		{"Challenge.BusyPerSecond", with(func(c *challenge) { c.BusyPerSecond = 1 }), "belongs to WhenBusy"},
		{"Challenge.BusyPerSecond", every(func(c *challenge) { c.BusyPerSecond = 1 }), "belongs to WhenBusy"},
		{"Challenge.BusyAtOnce", busy(func(c *challenge) { c.BusyPerSecond, c.BusyAtOnce = 1, -1 }), "from 1 to 1000000"},
		{"Challenge.BusyAtOnce", busy(func(c *challenge) { c.BusyAtOnce = 1_000_001 }), "from 1 to 1000000"},
		{"Challenge.BusyAtOnce", with(func(c *challenge) { c.Mode, c.BusyAtOnce = middleware.Newcomers, 1 }), "belongs to WhenBusy"},
		{"Challenge.Mode", func(cfg *middleware.Config) {
			cfg.Challenge, cfg.TokenTransport = new(challenge), middleware.MemoryOnly
		}, "never get its token"},
		{"Challenge.Mode", func(cfg *middleware.Config) {
			cfg.Challenge, cfg.TokenTransport = &challenge{Mode: middleware.Newcomers}, middleware.MemoryOnly
		}, "EveryRequest"},
		{"Challenge.Work", with(func(c *challenge) { c.Work = 15 }), "from 16"},
		{"Challenge.Work", with(func(c *challenge) { c.Work = -1 }), "from 16"},
		{"Challenge.Work", with(func(c *challenge) { c.Work = 1<<29 + 1 }), "536870912"},
		{"Challenge.Work", every(func(c *challenge) { c.Work = 1 }), "from 16"},
		{"Challenge.Crowd", with(func(c *challenge) { c.Crowd = -1 }), "from 1 to 255"},
		{"Challenge.Crowd", with(func(c *challenge) { c.Crowd = 256 }), "from 1 to 255"},
		{"Challenge.SalesPerHour", with(func(c *challenge) { c.SalesPerHour = -1 }), "from 1 to 100000"},
		{"Challenge.SalesPerHour", with(func(c *challenge) { c.SalesPerHour = 100_001 }), "from 1 to 100000"},
		{"Challenge.PassTime", with(func(c *challenge) { c.PassTime = time.Second }), "from 1 min to 24 h"},
		{"Challenge.PassTime", with(func(c *challenge) { c.PassTime = 25 * time.Hour }), "from 1 min to 24 h"},
		{"Challenge.PassTime", with(func(c *challenge) { c.PassTime = -time.Hour }), "from 1 min to 24 h"},
		{"Challenge.PassTime", with(func(c *challenge) { c.PassTime = time.Hour + time.Millisecond }), "whole seconds"},
		{"Challenge.NonceOnly", with(func(c *challenge) { c.NonceOnly = true }), "belongs to EveryRequest"},
		{"Challenge.NonceOnly", with(func(c *challenge) { c.Mode, c.NonceOnly = middleware.Newcomers, true }), "no limit"},
		{"Challenge.NonceOnly", every(func(c *challenge) { c.NonceOnly, c.Work = true, 1024 }), "leave Work 0"},
		{"Challenge.Path", bad("tally/"), "absolute path"},
		{"Challenge.Path", bad("/tally"), "ends in a slash"},
		{"Challenge.Path", bad("https://example.com/"), "plain absolute path"},
		{"Challenge.Path", bad("//evil.example/"), "plain absolute path"},
		{"Challenge.Path", bad("/a//b/"), "plain absolute path"},
		{"Challenge.Path", bad("/a/../b/"), "plain absolute path"},
		{"Challenge.Path", bad("/a/./"), "plain absolute path"},
		{"Challenge.Path", bad("/../"), "plain absolute path"},
		{"Challenge.Path", bad(`/"/`), "/tally/contact/"},
		{"Challenge.Path", bad(`/\/`), "plain"},
		{"Challenge.Path", bad("/{id}/"), "plain"},
		{"Challenge.Path", bad("/a?b/"), "plain"},
		{"Challenge.Path", bad("/a#b/"), "plain"},
		{"Challenge.Path", bad("/%41/"), "plain"},
		{"Challenge.Path", bad("/a b/"), "plain"},
		{"Challenge.Path", bad("/<script>/"), "plain"},
		{"Challenge.Path", bad("/a\r\nX: y/"), "plain"},
		{"Challenge.Path", bad("/\x7f/"), "plain"},
		{"Challenge.Path", bad("/é/"), "plain"},
	})
}

func TestGoodChallenges(t *testing.T) {
	for name, challenge := range map[string]middleware.Challenge{
		"zero":         {},
		"least":        {Work: 16, Crowd: 1, SalesPerHour: 1, PassTime: time.Minute, Path: "/"},
		"most":         {Work: 1 << 29, Crowd: 255, SalesPerHour: 100_000, PassTime: 24 * time.Hour, Path: "/a-b_c.d~e/f/"},
		"WhenBusy":     {Mode: middleware.WhenBusy, BusyPerSecond: 1_000_000, BusyAtOnce: 1},
		"NonceOnly":    {Mode: middleware.EveryRequest, NonceOnly: true},
		"EveryRequest": {Mode: middleware.EveryRequest, Work: 1 << 29, BindOwn: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := limited(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Challenge = &challenge }))
			if challenge.Mode <= middleware.WhenBusy {
				exhaust(t, h)
			}
			resp := send(h)
			if name == "most" {
				require.EqualValues(t, 1<<29, challengeIn(t, resp).Work)
			}
			challengeIn(t, resp)
		})
	}
}

// The zero Challenge is safe: WhenExhausted, 2¹⁸ hashes, a Crowd of 64, 32 sales an
// hour, own tallies that travel, no URLs.
func TestDefaultChallenge(t *testing.T) {
	now := new(clock)
	cfg := challenging(now, middleware.WhenExhausted)
	cfg.Challenge = &middleware.Challenge{}
	h := newSite(t, cfg)
	exhaust(t, h)
	resp := requireStatus(t, http429, send(h))
	c := challengeIn(t, resp)
	require.EqualValues(t, 1<<18, c.Work)
	require.Equal(t, 10*time.Second, c.TTL)
	require.Empty(t, problemIn(t, resp).RedeemURL)

	// The price doubles with every 64, and 32 leak within an hour, on each instance: with a tenth of that, one of
	// ten would be shut for a tenth of the work.
	for _, cfg.Instances = range []int64{0, 10} {
		cfg.Challenge = &middleware.Challenge{Work: 16}
		h = newSite(t, cfg)
		exhaust(t, h)
		for i := range 2 * 64 {
			offer := challengeIn(t, send(h))
			require.Equal(t, priceAfter(i, 64, 16), offer.Work)
			require.Equal(t, 200, send(h, proving(solve(t, offer))).StatusCode)
		}
		now.Advance(time.Hour)
		exhaust(t, h)
		require.EqualValues(t, 48, challengeIn(t, send(h)).Work)
		now.Advance(3 * time.Hour)
		exhaust(t, h)
		require.EqualValues(t, 16, challengeIn(t, send(h)).Work)
	}
}

const http429 = 429

// New copies the Challenge: what is changed afterwards changes nothing.
func TestChallengeIsCopied(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	h := newSite(t, cfg)
	cfg.Challenge.Mode, cfg.Challenge.Work, cfg.Challenge.Path = middleware.EveryRequest, 1<<20, "/elsewhere/"
	require.EqualValues(t, 16, challengeIn(t, fetched(h)).Work)
	require.EqualValues(t, 16, challengeIn(t, send(h)).Work)
}

// posting sends a form and returns the status.
func posting(t testing.TB, c *http.Client, url string) int {
	t.Helper()
	resp := kit.Must(c.Post(url, "text/plain", strings.NewReader("words")))(t)
	kit.Must(io.Copy(io.Discard, resp.Body))(t)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// The Go client against the real thing, in every mode.
func TestClientInEveryMode(t *testing.T) {
	for name, test := range map[string]struct {
		mode     middleware.Mode
		requests int // that must all pass
		solves   int64
	}{
		"WhenExhausted": {middleware.WhenExhausted, 15, 2}, // five shared, five of each tally
		"Newcomers":     {middleware.Newcomers, 10, 2},
		"EveryRequest":  {middleware.EveryRequest, 5, 5},
	} {
		for _, change := range map[string]func(*middleware.Config){
			"address": func(*middleware.Config) {},
			"key": func(cfg *middleware.Config) {
				cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("k"), nil }
			},
			"HeaderOnly": func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
			"quiet":      func(cfg *middleware.Config) { cfg.Quiet = true },
		} {
			t.Run(name, func(t *testing.T) {
				h := newSite(t, changed(challenging(new(clock), test.mode), change))
				h.Spy.Serve = func(_ http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(body, []byte("words")) {
						t.Errorf("the body came as %q, %v", body, err)
					}
				}
				server := serve(t, h)
				c, solves := polite(t)
				for i := range test.requests {
					require.Equal(t, http.StatusOK, posting(t, c, server.URL), "request %d", i)
				}
				require.Equal(t, test.solves, solves.Load())
				require.EqualValues(t, test.requests, h.Spy.Calls.Load())
			})
		}
	}
}

// Several policies of one origin, some of them around each other.
func TestClientWithSeveralPolicies(t *testing.T) {
	now := new(clock)
	policy := func(name string, mode middleware.Mode, quota int64) *middleware.Middleware {
		return newLimiter(t, changed(challenging(now, mode), func(cfg *middleware.Config) { cfg.Policy, cfg.Limits[0].Quota = name, quota }))
	}
	signup, feedback, contact := policy("signup", middleware.Newcomers, 3), policy("feedback", middleware.EveryRequest, 6), policy("contact", middleware.WhenExhausted, 2)
	site := policy("site", middleware.Newcomers, 1000)
	mux, s := http.NewServeMux(), new(spy)
	mux.Handle("/signup", signup.Handler(s))
	mux.Handle("/feedback", feedback.Handler(s))
	mux.Handle("/contact", contact.Handler(s))
	mux.Handle("/both", signup.Handler(contact.Handler(s)))
	server := serve(t, site.Handler(mux))
	c, solves := polite(t)
	for range 3 {
		for _, path := range []string{"/signup", "/feedback", "/contact"} {
			require.Equal(t, http.StatusOK, posting(t, c, server.URL+path), path)
		}
	}
	// One for the site, one for signup, one for each feedback, one for contact.
	require.EqualValues(t, 1+1+3+1, solves.Load())
	require.Equal(t, http.StatusOK, posting(t, c, server.URL+"/both"))
	require.EqualValues(t, 6+1, solves.Load(), "one more of signup; contact has some left")
	require.EqualValues(t, 10, s.Calls.Load())
}

// FuzzProofHeader: no field and no cookie that is not the answer to a challenge of this client buys anything, panics,
// or is paid for with memory. TEXT stands for a fresh challenge, OTHER for a good proof of another client, OLD for
// one that has expired, SPENT for one that has bought its request, TOKEN for a window token.
func FuzzProofHeader(f *testing.F) {
	type target struct {
		h     http.Handler
		now   *clock
		known *strings.Replacer
	}
	var targets []target
	for _, mode := range allModes {
		now := new(clock)
		cfg := challenging(now, mode)
		cfg.Challenge.Work = 4096 // not to be guessed
		h := newSite(f, cfg)
		old := solved(f, fetched(h))
		now.Advance(20 * time.Second)
		spent := solved(f, fetched(h))
		token := redeemed(h, spent)
		send(h, proving(spent))
		exhaustIn(f, mode, h)
		if mode != middleware.EveryRequest {
			admitted(h, 9, proving(spent)) // opened, and used up
		}
		known := strings.NewReplacer("TEXT", challengeIn(f, fetched(h)).Text, "OTHER", solved(f, fetched(h, from("203.0.113.2"))),
			"OLD", old, "SPENT", spent, "TOKEN", tokenIn(token))
		targets = append(targets, target{h, now, known})
	}
	f.Fuzz(func(t *testing.T, field, cookie string) {
		for _, target := range targets {
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.RemoteAddr = "203.0.113.1:4711"
			if field != "" {
				r.Header[middleware.ProofHeader] = strings.Split(target.known.Replace(field), "\n")
			}
			r.Header["Cookie"] = strings.Split(target.known.Replace(cookie), "\n")
			for _, path := range []string{"/", "/tally/redeem"} {
				r.URL.Path = path
				w := httptest.NewRecorder()
				target.h.ServeHTTP(w, r)
				if w.Code == http.StatusOK {
					require.Equal(t, "/tally/redeem", path, "admitted")
					require.Contains(t, field, "SPENT", "redeemed")
					continue
				}
				require.Contains(t, []int{http.StatusForbidden, http.StatusTooManyRequests}, w.Code)
				if w.Code == http.StatusForbidden {
					require.NotEmpty(t, w.Header().Get(middleware.ChallengeHeader))
				}
			}
			sent := &sink{Fields: http.Header{}}
			require.Less(t, allocated(func() { target.h.ServeHTTP(sent, r) }), uint64(32<<10))
		}
	})
}

// A thousand requests at once with one proof: one sale, and one quota or one request.
func TestThousandRequestsWithOneProof(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, challenging(new(clock), mode))
		exhaustIn(t, mode, h)
		proof := solved(t, fetched(h))
		if mode == middleware.EveryRequest {
			require.Equal(t, 1, together(h, 1000, proving(proof)))
			return
		}
		require.Equal(t, 5, together(h, 1000, proving(proof)))
		require.EqualValues(t, 24, challengeIn(t, fetched(h)).Work, "one sale")
	})
}

// A proof is good for the client, the policy, the kind and the key that it was made for.
func TestSwapsAreRefused(t *testing.T) {
	now := new(clock)
	configured := func(changes ...change) middleware.Config {
		return changed(challenging(now, middleware.Newcomers), changes...)
	}
	as := func(*middleware.Config) {} // it is
	key := func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey("\xcb\x00\x71\x01"), nil // the bytes of 203.0.113.1
	}
	for _, test := range []struct {
		name   string
		issuer change
		other  change
		client option // that shows the proof
		reason middleware.Reason
	}{
		{"policy", as, func(cfg *middleware.Config) { cfg.Policy = "signup" }, nil, "client-changed"},
		{"identity", as, as, from("203.0.113.2"), "client-changed"},
		{"identity of another kind", as, func(cfg *middleware.Config) { cfg.Identity = key }, nil, "client-changed"},
		{"the /64 beside", func(cfg *middleware.Config) { cfg.Identity = nil }, as, from("2001:db8:0:1::1"), "client-changed"},
		{"key", as, signedBy("b"), nil, "secret-unknown"},
		{"a key that was retired", signedBy("old", "new"), signedBy("new"), nil, "secret-unknown"},
		{"kind: a request's for a tally", func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }, as, nil, "client-changed"},
		{"kind: a tally's for a request", as, func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }, nil, "client-changed"},
		{"a nonce for work", func(cfg *middleware.Config) {
			cfg.Challenge.Mode, cfg.Challenge.Work, cfg.Challenge.NonceOnly = middleware.EveryRequest, 0, true
		}, as, nil, "client-changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			issuer, other := newSite(t, configured(test.issuer)), newSite(t, configured(test.other))
			buyer := from("203.0.113.1")
			if test.name == "the /64 beside" {
				buyer = from("2001:db8:0:2::1")
			}
			proof := solved(t, fetched(issuer, buyer))
			client := test.client
			if client == nil {
				client = buyer
			}
			require.Equal(t, http.StatusForbidden, send(other, client, proving(proof)).StatusCode)
			require.Equal(t, test.reason, other.Decisions.Last().Proof)
			require.Equal(t, http.StatusForbidden, redeemed(other, proof, client).StatusCode)
			require.Zero(t, other.Spy.Calls.Load())
			require.Equal(t, http.StatusOK, send(issuer, buyer, proving(proof)).StatusCode)
		})
	}
	t.Run("not a swap: one identity", func(t *testing.T) {
		h := newSite(t, configured())
		for shown, asked := range map[string]string{"203.0.113.1": "::ffff:203.0.113.1", "2001:db8::1": "2001:db8::ffff:1"} {
			proof := solved(t, fetched(h, from(asked)))
			port := func(r *http.Request) { from(shown)(r); r.RemoteAddr = strings.Replace(r.RemoteAddr, "4711", "1", 1) }
			require.Equal(t, http.StatusOK, send(h, port, proving(proof)).StatusCode, "%s is %s", shown, asked)
		}
	})
	t.Run("rotation", func(t *testing.T) {
		before := configured(signedBy("old"))
		for _, shown := range []middleware.Config{before, configured(signedBy("new", "old")), configured(signedBy("old", "new"))} {
			require.Equal(t, http.StatusOK, send(newSite(t, shown), proving(solved(t, fetched(newSite(t, before))))).StatusCode)
		}
	})
}

// A challenge lives from two seconds before the second of its issue, for clocks
// that differ, until its ttl has passed and its last second is over.
func TestTimeEdges(t *testing.T) {
	for name, mode := range allModes {
		refused := map[bool]int{false: 403, true: 429}[mode == middleware.WhenExhausted]
		for at, reason := range map[time.Duration]middleware.Reason{
			-time.Hour: "clock-differs", -3 * time.Second: "clock-differs", -2*time.Second - time.Millisecond: "clock-differs",
			-2 * time.Second: "", 0: "", 10 * time.Second: "", 11*time.Second - time.Nanosecond: "",
			11 * time.Second: "expired", 12 * time.Second: "expired", time.Hour: "expired",
		} {
			steps := []step{
				{after: time.Hour, as: toFetch, want: 200, keep: "offer"}, {after: at}, exhausting(mode),
				{prove: "offer", want: map[bool]int{false: refused, true: 200}[reason == ""], proof: reason},
			}
			if mode != middleware.EveryRequest {
				steps = append(steps, step{as: toRedeem, prove: "offer", want: map[bool]int{false: 403, true: 200}[reason == ""]})
			}
			play(t, []scenario{{fmt.Sprintf("%s, %s after its issue", name, at), working(mode), steps}})
		}
	}
}

// Window tokens and proofs are keyed, shaped and read apart.
func TestKindsDoNotMix(t *testing.T) {
	now := new(clock)
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(now, mode)
			h := newSite(t, cfg)
			var tokens []string
			if mode != middleware.EveryRequest {
				tokens = append(tokens, bought(t, h))
			}
			cfg.Challenge = nil
			tokens = append(tokens, tokenIn(send(newSite(t, cfg))))
			exhaustIn(t, mode, h)
			h.Spy.Calls.Store(0)
			for _, tok := range tokens {
				for _, shown := range []string{tok, tok + "~", tok + "~0.0.0.0.0.0.0.0", strings.ReplaceAll(tok, ".", "~")} {
					require.NotEqual(t, http.StatusOK, send(h, proving(shown)).StatusCode)
					require.Equal(t, middleware.Reason("wrong-solution"), h.Decisions.Last().Proof)
					require.Equal(t, http.StatusForbidden, redeemed(h, shown).StatusCode)
				}
			}
			proof := solved(t, fetched(h))
			text, _, _ := strings.Cut(proof, "~")
			for _, shown := range []string{proof, text, strings.ReplaceAll(proof, "~", ".")} {
				require.NotEqual(t, http.StatusOK, send(h, showing(shown), showingCookie(shown)).StatusCode)
				require.Zero(t, h.Decisions.Last().Tokens)
			}
			require.NotEqual(t, http.StatusOK, send(h, with("Cookie", "__Host-tallystick-contact.proof.0badcafe="+text)).StatusCode)
			require.Zero(t, h.Spy.Calls.Load())
		})
	}
}

// An issuer with the same secrets that is not this middleware signs what opens
// nothing: less work than 8/15 of the price, or none.
func TestSignedButCheap(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Work = 1024
	issuer := kit.Must(pow.New(pow.Config{Secrets: cfg.Secrets}))(t)
	for work, want := range map[uint64]middleware.Reason{0: "price-risen", 16: "price-risen", 544: "price-risen", 548: "", 1024: ""} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			c := kit.Must(issuer.Issue(midnight, pow.Binding{Client: []byte("a\xcb\x00\x71\x01"), Route: "contact", Tier: "family"}, work))(t)
			h := newSite(t, cfg)
			send(h, proving(solve(t, c)))
			require.Equal(t, want, h.Decisions.Last().Proof)
		})
	}
}
