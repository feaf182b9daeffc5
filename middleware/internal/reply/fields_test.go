// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was set is dropped again, the cookie too, and no cookie of a handler's.
func TestDropTakesOurCookieAlone(t *testing.T) {
	f := &Fields{Values: Values{Cookie: "tally=1"}}
	f.Lines[Token] = "token"
	h := http.Header{SetCookie: {"theirs=1"}, CacheControl: {"public"}}
	f.Set(h)
	require.Equal(t, []string{"theirs=1", "tally=1"}, h[SetCookie])
	f.drop(h)
	require.Equal(t, http.Header{SetCookie: {"theirs=1"}, CacheControl: {"public"}}, h)

	h = http.Header{}
	f.Set(h)
	f.drop(h)
	require.Empty(t, h, "no empty list of cookies")
}

// A handler that serves several requests by one limiter, on one writer, leaves the last
// token alone, beside that of an upstream.
func TestOldTokensOfOursAreReplaced(t *testing.T) {
	const ours, theirs = tokenStart + "aaaaa.", tokenStart + "bbbbb."
	h := http.Header{}
	for i := range 50 {
		var f Fields
		f.Lines[Token] = ours + string(rune('a'+i%26))
		f.Set(h)
		if i == 7 {
			h.Add(TokenField, theirs+"1")
		}
	}
	require.Equal(t, []string{ours + "x", theirs + "1"}, h[TokenField])
}

// TestHeardFirst: what is asked for by name changes no answer, whatever else is there.
func TestHeardFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	all := []string{
		"Content-Type", SetCookie, "Location", "Content-Length", "Vary", "Etag", "Date", CacheControl, expiresField, "Ratelimit",
		"Cdn-Cache-Control", surrogate, edge, "x-accel-expires", "Akamai-CACHE-control",
	}
	heard := 0
	for range 20_000 {
		h, want := http.Header{}, false
		for range r.IntN(7) {
			name := all[r.IntN(len(all))]
			h[name] = []string{"a"}
			want = want || storing(name)
		}
		known := 0
		for _, name := range []string{CacheControl, expiresField, "Ratelimit"} {
			if has(h, name) && r.IntN(2) == 0 {
				known++
			}
		}
		require.Equal(t, want, heardFirst(h, len(h)-known), "%v", h)
		if want {
			heard++
		}
	}
	require.Greater(t, heard, 1000)
}
