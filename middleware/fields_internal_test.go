package middleware

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was set is dropped again, the cookie too, and no cookie of a handler's.
func TestDropTakesOurCookieAlone(t *testing.T) {
	f := &fields{issued: issued{cookie: "tally=1"}}
	f.values[iToken] = "token"
	h := http.Header{fieldCookie: {"theirs=1"}, fieldCache: {"public"}}
	f.set(h)
	require.Equal(t, []string{"theirs=1", "tally=1"}, h[fieldCookie])
	f.drop(h)
	require.Equal(t, http.Header{fieldCookie: {"theirs=1"}, fieldCache: {"public"}}, h)

	h = http.Header{}
	f.set(h)
	f.drop(h)
	require.Empty(t, h, "no empty list of cookies")
}

// A handler that serves several requests by one limiter, on one writer, leaves the last
// token alone, beside that of an upstream.
func TestOldTokensOfOursAreReplaced(t *testing.T) {
	const ours, theirs = tokenStart + "aaaaa.", tokenStart + "bbbbb."
	h := http.Header{}
	for i := range 50 {
		var f fields
		f.values[iToken] = ours + string(rune('a'+i%26))
		f.set(h)
		if i == 7 {
			h.Add(TokenHeader, theirs+"1")
		}
	}
	require.Equal(t, []string{ours + "x", theirs + "1"}, h[TokenHeader])
}
