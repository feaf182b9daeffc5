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

// Where families are sold, a proof by cookie is for forms while the memory is full. It
// opens the family that the proof by field opens, and no other.
func TestProofCookieOpensTheSameFamily(t *testing.T) {
	for _, mode := range []middleware.Mode{middleware.WhenExhausted, middleware.Newcomers} {
		now := new(clock)
		s := newSite(t, challenging(now, mode))
		if mode == middleware.WhenExhausted {
			exhaust(t, s)
		}
		proof := solved(t, fetched(s))
		cookie := with("Cookie", "__Host-tallystick-contact.proof="+proof)
		require.Equal(t, 3, admitted(s, 3, cookie))
		require.Equal(t, 2, admitted(s, 3, proving(proof)), "five in all")
		require.Equal(t, 0, admitted(s, 3, cookie))
		stranger := from("203.0.113.77")
		if mode == middleware.WhenExhausted {
			exhaust(t, s, stranger)
		}
		require.Equal(t, 0, admitted(s, 3, cookie, stranger), "nor is it good for others")
	}
}
