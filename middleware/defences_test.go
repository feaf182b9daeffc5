package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// Tests of steps that no other test misses: each was written because a mutant
// survived.

// Good tokens cost a MAC like forged ones.
func TestFiveGoodTokensAreFour(t *testing.T) {
	cfg := contact(new(clock))
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	tok := spend(t, h, 1)
	for _, show := range []option{showing(tok, tok, tok, tok, tok), with(middleware.TokenHeader, tok+","+tok+","+tok+","+tok+","+tok), showingCookie(tok, tok, tok, tok, tok)} {
		require.Equal(t, http.StatusOK, send(h, show).StatusCode)
		require.Equal(t, 4, decisions.last().Tokens)
	}
}

// A refusal is negotiated, whatever else the response varies by.
func TestRefusalVariesToo(t *testing.T) {
	h, _ := limited(t, contact(new(clock)))
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(w, r)
	})
	exhaust(t, outer)
	require.Equal(t, []string{"Origin", "Accept"}, send(outer).Header.Values("Vary"))
}

// The cookie of a proof is for policies whose proofs buy a request each. Where
// families are sold it would open one again and again, from any page.
func TestProofCookieOpensNoFamily(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		now := new(clock)
		s := newSite(t, challenging(now, mode))
		if mode == middleware.WhenExhausted {
			exhaust(t, s)
		}
		proof := solved(t, fetched(s))
		require.NotEqual(t, http.StatusOK, send(s, with("Cookie", "__Host-tallystick-contact.proof="+proof)).StatusCode)
		require.Equal(t, http.StatusOK, send(s, proving(proof)).StatusCode, "the proof was good")
	}
}
