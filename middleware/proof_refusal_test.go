// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// Every single bit of a proof is part of what was signed or answered.
func TestEveryBitFlipIsRefused(t *testing.T) {
	cfg := challenging(new(clock), middleware.Newcomers)
	cfg.Challenge.Work = 4096 // long answers; a wrong one is not right by chance
	h := newSite(t, cfg)
	proof := solved(t, fetched(h))
	text, answers, _ := strings.Cut(proof, "~")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Len(t, raw, 102)
	refused := 0
	refuse := func(forged string) {
		require.Equal(t, http.StatusForbidden, send(h, proving(forged)).StatusCode, forged)
		require.Contains(t, []middleware.Reason{"wrong-solution", "secret-unknown"}, h.Decisions.Last().Proof)
		require.Equal(t, http.StatusForbidden, redeemed(h, forged).StatusCode, forged)
		refused++
	}
	for bit := range 8 * len(raw) {
		raw[bit/8] ^= 1 << (bit % 8)
		refuse(base64.RawURLEncoding.EncodeToString(raw) + "~" + answers)
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for i := range 8 * len(proof) { // and of the spelling
		flipped := []byte(proof)
		flipped[i/8] ^= 1 << (i % 8)
		refuse(string(flipped))
	}
	t.Logf("%d of %d bit flips refused", refused, 8*(len(raw)+len(proof)))
	require.Zero(t, h.Spy.Calls.Load())
	require.Equal(t, http.StatusOK, send(h, proving(proof)).StatusCode, "it was good all along")
}

// A proof is good for the client, the policy, the kind and the key that it was made for.
func TestSwapsAreRefused(t *testing.T) {
	now := new(clock)
	base := challenging(now, middleware.Newcomers)
	bySecret := func(names ...string) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Secrets = nil
			for _, name := range names {
				cfg.Secrets = append(cfg.Secrets, secret(name))
			}
		}
	}
	key := func(r *http.Request) (middleware.Identity, error) {
		return middleware.APIKey("\xcb\x00\x71\x01"), nil // the bytes of 203.0.113.1
	}
	for _, test := range []struct {
		name   string
		issuer func(*middleware.Config)
		other  func(*middleware.Config)
		client option // who shows the proof
		reason middleware.Reason
	}{
		{"policy", nil, func(cfg *middleware.Config) { cfg.Policy = "signup" }, nil, "client-changed"},
		{"identity", nil, nil, from("203.0.113.2"), "client-changed"},
		{"identity of another kind", nil, func(cfg *middleware.Config) { cfg.Identity = key }, nil, "client-changed"},
		{"the /64 beside", func(cfg *middleware.Config) { cfg.Identity = nil }, nil, from("2001:db8:0:1::1"), "client-changed"},
		{"key", nil, bySecret("b"), nil, "secret-unknown"},
		{"a key that was retired", bySecret("old", "new"), bySecret("new"), nil, "secret-unknown"},
		{"kind: a request's for a tally", func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }, nil, nil, "client-changed"},
		{"kind: a tally's for a request", nil, func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }, nil, "client-changed"},
		{"a nonce for work", func(cfg *middleware.Config) {
			cfg.Challenge.Mode, cfg.Challenge.Work, cfg.Challenge.NonceOnly = middleware.EveryRequest, 0, true
		}, nil, nil, "client-changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := func(change func(*middleware.Config)) middleware.Config {
				cfg := base
				challenge := *base.Challenge
				cfg.Challenge = &challenge
				if change != nil {
					change(&cfg)
				}
				return cfg
			}
			issuer, other := newSite(t, config(test.issuer)), newSite(t, config(test.other))
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
		h := newSite(t, base)
		for shown, asked := range map[string]string{"203.0.113.1": "::ffff:203.0.113.1", "2001:db8::1": "2001:db8::ffff:1"} {
			proof := solved(t, fetched(h, from(asked)))
			port := func(r *http.Request) { from(shown)(r); r.RemoteAddr = strings.Replace(r.RemoteAddr, "4711", "1", 1) }
			require.Equal(t, http.StatusOK, send(h, port, proving(proof)).StatusCode, "%s is %s", shown, asked)
		}
	})
	t.Run("rotation", func(t *testing.T) {
		before, during, after := base, base, base
		bySecret("old")(&before)
		bySecret("new", "old")(&during)
		bySecret("old", "new")(&after)
		for _, shown := range []middleware.Config{before, during, after} {
			require.Equal(t, http.StatusOK, send(newSite(t, shown), proving(solved(t, fetched(newSite(t, before))))).StatusCode)
		}
	})
}

// A challenge lives from two seconds before the second of its issue, for clocks
// that differ, until its ttl has passed and its last second is over.
func TestTimeEdges(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			for at, good := range map[time.Duration]bool{
				-time.Hour: false, -3 * time.Second: false, -2*time.Second - time.Millisecond: false,
				-2 * time.Second: true, 0: true, 10 * time.Second: true, 11*time.Second - time.Nanosecond: true,
				11 * time.Second: false, 12 * time.Second: false, time.Hour: false,
			} {
				now := new(clock)
				now.Advance(time.Hour)
				h := newSite(t, challenging(now, mode))
				proof := solved(t, fetched(h))
				now.Advance(at)
				exhaustIn(t, mode, h)
				resp := send(h, proving(proof))
				require.Equal(t, good, resp.StatusCode == http.StatusOK, "%s after its issue", at)
				switch {
				case !good && at < 0:
					require.Equal(t, middleware.Reason("clock-differs"), h.Decisions.Last().Proof)
				case !good:
					require.Equal(t, middleware.Reason("expired"), h.Decisions.Last().Proof)
				}
				if mode != middleware.EveryRequest {
					require.Equal(t, good, redeemed(h, proof).StatusCode == http.StatusOK)
				}
			}
		})
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
	issuer, err := pow.New(pow.Config{Secrets: cfg.Secrets})
	require.NoError(t, err)
	for work, want := range map[uint64]middleware.Reason{0: "price-risen", 16: "price-risen", 544: "price-risen", 548: "", 1024: ""} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			c, err := issuer.Issue(midnight, pow.Binding{Client: []byte("a\xcb\x00\x71\x01"), Route: "contact", Tier: "family"}, work)
			require.NoError(t, err)
			h := newSite(t, cfg)
			send(h, proving(solve(t, c)))
			require.Equal(t, want, h.Decisions.Last().Proof)
		})
	}
}
