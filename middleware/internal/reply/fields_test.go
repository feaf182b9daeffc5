// SPDX-License-Identifier: Apache-2.0

package reply

import (
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
