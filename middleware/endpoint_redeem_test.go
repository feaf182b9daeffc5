// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Redeeming answers the tally's first token, and asking again the same bytes.
func TestRedeem(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"default":        func(*middleware.Config) {},
		"BindOwn":        func(cfg *middleware.Config) { cfg.Challenge.BindOwn = true },
		"X-RateLimit":    func(cfg *middleware.Config) { cfg.Fields = middleware.RateLimitFields | middleware.XRateLimitInSeconds },
		"HeaderOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
		"CookieOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"EmbeddedCookie": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
		"InsecureCookie": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
		"no memory":      func(cfg *middleware.Config) { cfg.InsecureNoMemory = true },
	} {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := challenging(now, middleware.Newcomers)
			change(&cfg)
			h := newSite(t, cfg)
			proof := solved(t, fetched(h))
			now.Advance(4 * time.Second)
			first := requireStatus(t, http.StatusOK, redeemed(h, proof))
			requireHeader(t, first, "Cache-Control", "no-store", "Content-Type", "application/json")
			require.Empty(t, first.Header.Get("RateLimit"), "no limit was asked")
			requireHeader(t, first, "RateLimit-Policy", "", "X-RateLimit-Limit", "", middleware.ChallengeHeader, "")
			require.JSONEq(t, `{"expires-in":3596}`, bodyOf(t, first))

			cookie, tok := cookieIn(first), tokenIn(first)
			require.Equal(t, cfg.TokenTransport == middleware.HeaderOnly, cookie == nil)
			require.Equal(t, cfg.TokenTransport == middleware.CookieOnly, tok == "")
			if cookie != nil {
				requireCookie(t, cfg, cookie, 3596)
				require.Len(t, first.Cookies(), 1)
				if tok == "" {
					tok = cookie.Value
				}
				require.Equal(t, tok, cookie.Value)
			}
			require.Empty(t, claimsIn(t, tok).T, "count zero")

			send(h, showing(tok), showingCookie(tok))
			second := redeemed(h, proof, showing("x")) // whatever happened since
			if tokenIn(second) != "" {
				require.Equal(t, tok, tokenIn(second), "byte for byte")
			}
			require.Equal(t, first.Header.Values("Set-Cookie"), second.Header.Values("Set-Cookie"))
		})
	}
}

// What is not worth a token is answered with a fresh challenge, as on the route.
func TestRedeemRefusals(t *testing.T) {
	h := newSite(t, challenging(new(clock), middleware.Newcomers))
	for proof, reason := range map[string]middleware.Reason{
		"": middleware.NoToken, "x": "wrong-solution",
		solved(t, fetched(h, from("203.0.113.2"))): "client-changed",
	} {
		resp := requireStatus(t, http.StatusForbidden, redeemed(h, proof))
		p := problemIn(t, resp)
		require.Equal(t, reason, p.Reason)
		require.Equal(t, challengeIn(t, resp).Text, p.Challenge)
		require.Empty(t, resp.Cookies())
		require.Empty(t, tokenIn(resp))
		require.Equal(t, http.StatusOK, redeemed(h, solved(t, resp)).StatusCode)
		h = newSite(t, challenging(new(clock), middleware.Newcomers))
	}
	resp := send(h, path("/tally/redeem"))
	require.Equal(t, middleware.NoToken, problemIn(t, resp).Reason, "no proof at all")
	page := redeemed(h, "x", with("Accept", "text/html"))
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
}

// In EveryRequest the cookie carries the proof along with one form post.
func TestProofCookie(t *testing.T) {
	now := new(clock)
	for name, change := range map[string]func(*middleware.Config){
		"default":        func(*middleware.Config) {},
		"CookieOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"EmbeddedCookie": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
		"InsecureCookie": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
		"HeaderOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(now, middleware.EveryRequest)
			change(&cfg)
			h := newSite(t, cfg)
			proof := solved(t, fetched(h))
			now.Advance(4 * time.Second)
			resp := requireStatus(t, http.StatusOK, redeemed(h, proof))
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			require.Equal(t, "{\"expires-in\":7}\n", bodyOf(t, resp))
			require.Empty(t, tokenIn(resp), "it is a proof, not a token")
			cookie := cookieIn(resp)
			if name == "HeaderOnly" {
				require.Nil(t, cookie)
				require.Equal(t, http.StatusForbidden, send(h, with("Cookie", "__Host-tallystick-contact.proof.0badcafe="+proof)).StatusCode)
				return
			}
			prefix := "__Host-"
			if cfg.InsecureCookie {
				prefix = ""
			}
			require.Regexp(t, "^"+prefix+"tallystick-contact\\.proof\\.[0-9a-f]{8}$", cookie.Name)
			require.Equal(t, proof, cookie.Value)
			requireCookie(t, cfg, cookie, 7)

			require.Equal(t, cookie.Raw, cookieIn(redeemed(h, proof)).Raw, "again, while it is not spent")
			carried := with("Cookie", "session=1; "+cookie.Name+"="+cookie.Value+"; theme=dark")
			require.Equal(t, http.StatusOK, send(h, carried).StatusCode)
			replay := requireStatus(t, http.StatusForbidden, send(h, carried))
			require.Equal(t, middleware.ProofReplayed, problemIn(t, replay).Reason)

			fresh := solved(t, fetched(h))
			require.Equal(t, http.StatusOK, send(h, carried, proving(fresh)).StatusCode, "the field comes first")
			planted := with("Cookie", cookie.Name+"=nonsense")
			require.Equal(t, http.StatusOK, send(h, planted, with("Cookie", cookie.Name+"="+solved(t, fetched(h)))).StatusCode)
		})
	}
}

// The whole way of a browser: fetch, solve, redeem, post the form; once.
func TestBrowserPostsAForm(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, challenging(new(clock), mode))
		url, client := browser(t, h)
		ask := func(verb, path string, options ...option) *http.Response {
			return over(t, client, url+path, append(options, method(verb), with("Sec-Fetch-Site", "same-origin", "Origin", url))...)
		}
		proof := solved(t, ask("GET", "/tally/challenge"))
		require.Equal(t, http.StatusOK, ask("POST", "/tally/redeem", proving(proof)).StatusCode)
		posts := map[middleware.Mode]int{middleware.WhenExhausted: 10, middleware.Newcomers: 5, middleware.EveryRequest: 1}[mode]
		for range posts {
			require.Equal(t, http.StatusOK, ask("POST", "/").StatusCode)
		}
		require.NotEqual(t, http.StatusOK, ask("POST", "/").StatusCode)
		require.EqualValues(t, posts, h.Spy.Calls.Load())
	})
}

// Where tallies are sold, a proof by cookie is for forms while the memory is full. It
// opens the tally that the proof by field opens, and no other.
func TestProofCookieOpensTheSameTally(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		s := newSite(t, challenging(new(clock), mode))
		exhaustIn(t, mode, s)
		proof := solved(t, fetched(s))
		cookie := with("Cookie", "__Host-tallystick-contact.proof.0badcafe="+proof)
		require.Equal(t, 3, admitted(s, 3, cookie))
		require.Equal(t, 2, admitted(s, 3, proving(proof)), "five in all")
		require.Equal(t, 0, admitted(s, 3, cookie))
		stranger := from("203.0.113.77")
		exhaustIn(t, mode, s, stranger)
		require.Equal(t, 0, admitted(s, 3, cookie, stranger), "nor is it good for others")
	}
}

// Two pages that are checked before either is sent: each has a proof of its own, and the
// cookie of one that is spent goes away.
func TestProofsOfTwoPages(t *testing.T) {
	at := func(t *testing.T) (*site, []string, []*http.Cookie) {
		cfg := challenging(new(clock), middleware.EveryRequest)
		cfg.Limits[0].Quota = 8
		h := newSite(t, cfg)
		var proofs []string
		var cookies []*http.Cookie
		for range 6 {
			proof := solved(t, fetched(h))
			proofs, cookies = append(proofs, proof), append(cookies, cookieIn(redeemed(h, proof)))
		}
		return h, proofs, cookies
	}
	showing := func(cookies ...*http.Cookie) option {
		return func(r *http.Request) {
			for _, c := range cookies {
				r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
			}
		}
	}
	// gone returns the names of the cookies that a response takes away.
	gone := func(resp *http.Response) (names []string) {
		for _, c := range resp.Cookies() {
			if c.MaxAge < 0 {
				require.Empty(t, c.Value)
				require.True(t, c.Secure && c.HttpOnly)
				require.Equal(t, "/", c.Path)
				names = append(names, c.Name)
			}
		}
		return names
	}
	t.Run("one after the other", func(t *testing.T) {
		h, _, cookies := at(t)
		require.NotEqual(t, cookies[0].Name, cookies[1].Name)
		first := requireStatus(t, http.StatusOK, send(h, showing(cookies[0], cookies[1])))
		require.Equal(t, []string{cookies[0].Name}, gone(first))
		second := requireStatus(t, http.StatusOK, send(h, showing(cookies[1])))
		require.Equal(t, []string{cookies[1].Name}, gone(second))
	})
	t.Run("both at once, with the cookies of both", func(t *testing.T) {
		h, _, cookies := at(t)
		both := showing(cookies[0], cookies[1])
		require.Equal(t, http.StatusOK, send(h, both).StatusCode)
		second := requireStatus(t, http.StatusOK, send(h, both))
		require.Equal(t, []string{cookies[0].Name, cookies[1].Name}, gone(second))
		third := requireStatus(t, http.StatusForbidden, send(h, both), "a proof is one request")
		require.Equal(t, middleware.ProofReplayed, h.Decisions.Last().Proof)
		require.Equal(t, []string{cookies[0].Name, cookies[1].Name}, gone(third))
	})
	t.Run("by field, and two in one", func(t *testing.T) {
		h, proofs, _ := at(t)
		require.Equal(t, http.StatusOK, send(h, proving(proofs[0], proofs[1])).StatusCode)
		second := requireStatus(t, http.StatusOK, send(h, proving(proofs[0]+","+proofs[1])))
		require.Empty(t, gone(second), "there was no cookie")
		require.Equal(t, http.StatusForbidden, send(h, proving(proofs[0], proofs[1])).StatusCode)
	})
	t.Run("four are looked at", func(t *testing.T) {
		h, proofs, cookies := at(t)
		for _, proof := range proofs[:4] {
			require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode)
		}
		require.Equal(t, http.StatusOK, send(h, showing(cookies[1:]...)).StatusCode)
		replay := requireStatus(t, http.StatusForbidden, send(h, showing(cookies[:5]...)))
		require.Len(t, gone(replay), 4, "so that the fifth is looked at the next time")
		require.Equal(t, http.StatusOK, send(h, showing(cookies[5])).StatusCode)
	})
	t.Run("a request that is refused spends none", func(t *testing.T) {
		h, _, cookies := at(t)
		for range 8 {
			require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)
		}
		full := requireStatus(t, http429, send(h, showing(cookies[0])))
		require.Empty(t, gone(full))
	})
}

func requireCookie(t *testing.T, cfg middleware.Config, cookie *http.Cookie, maxAge int) {
	t.Helper()
	require.Equal(t, []any{maxAge, true, "/", !cfg.InsecureCookie, cfg.EmbeddedCookie},
		[]any{cookie.MaxAge, cookie.HttpOnly, cookie.Path, cookie.Secure, cookie.Partitioned})
}

// A browser that keeps cookies shows one with the proof, and so need not ask what has become of what it bought. One
// that shows a cookie already is sent none to be tried.
func TestRedeemTellsWhetherCookiesAreKept(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"default":        func(*middleware.Config) {},
		"EveryRequest":   func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest },
		"CookieOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.CookieOnly },
		"EmbeddedCookie": func(cfg *middleware.Config) { cfg.EmbeddedCookie = true },
		"InsecureCookie": func(cfg *middleware.Config) { cfg.InsecureCookie = true },
		"HeaderOnly":     func(cfg *middleware.Config) { cfg.TokenTransport = middleware.HeaderOnly },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := challenging(new(clock), middleware.Newcomers)
			change(&cfg)
			h := newSite(t, cfg)
			resp := fetched(h)
			kept := cookieIn(resp)
			if name == "HeaderOnly" {
				require.Nil(t, kept)
				require.NotContains(t, bodyOf(t, redeemed(h, solved(t, resp), with("Cookie", "__Host-tallystick-contact.kept=1"))), "carried")
				return
			}
			require.Regexp(t, `^(__Host-)?tallystick-contact\.kept$`, kept.Name)
			requireCookie(t, cfg, kept, 10)
			require.NotContains(t, bodyOf(t, redeemed(h, solved(t, resp), with("Cookie", "session=1"))), "carried")
			back := with("Cookie", kept.Name+"="+kept.Value)
			again := fetched(h, back)
			require.Empty(t, again.Cookies())
			bought := requireStatus(t, http.StatusOK, redeemed(h, solved(t, again), back))
			require.Contains(t, bodyOf(t, bought), `,"carried":true}`)
			require.Len(t, bought.Cookies(), 1)
			require.NotContains(t, bodyOf(t, fetched(h, back)), "carried", "it is no purchase")
		})
	}
	t.Run("no work is needed", func(t *testing.T) {
		resp := fetched(newSite(t, challenging(new(clock), middleware.WhenExhausted)))
		require.Contains(t, bodyOf(t, resp), `"needed":false`)
		require.Empty(t, resp.Cookies())
	})
}
