// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

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

// TestStacksAreFinalizedOnce: where the outer ones only look, they would have changed nothing; and what
// a stack says together is the same where it was not kept.
func TestStacksAreFinalizedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	looked := 0
	for range 8_000 {
		h, stack := http.Header{}, make([]Fields, 1+r.IntN(usual+2))
		spoil := func() {
			name := pick(slices.Concat(names[:], []string{SetCookie, "Content-Type", "Etag", expiresField, surrogate})...)
			switch r.IntN(6) {
			case 0:
				h.Del(name)
			case 1:
				h.Set(name, pick("theirs", "public", "private, no-store", "max-age=9", tokenStart+"theirs.1"))
			case 2:
				h.Add(name, pick("theirs", "public"))
			case 3:
				clear(h)
			}
		}
		for i := range stack {
			f := &stack[i]
			value := func(of int) string {
				return pick("", fmt.Sprint(tokenStart, i, ".", of), fmt.Sprint(tokenStart, i, ".", of))
			}
			for of := range f.Lines {
				f.Lines[of] = value(of)
			}
			if f.Lines[Cache] = pick("", NoStore, NoStore); r.IntN(4) == 0 {
				f.Other(r.IntN(numMore), value(numFields))
			}
			f.Cookie, f.Paid = pick("", fmt.Sprint(i, "=1")), r.IntN(8) == 0
			if i > 0 {
				f.Within(&stack[i-1], pointer(r.IntN(4) > 0, new(Lists)))
			}
			if r.IntN(2) == 0 {
				whole, own := h.Clone(), []string(nil)
				if f.Lines[Cache] != "" {
					_, own = publiclyCacheable(time.UnixMicro(f.Now), whole)
					ForbidStoring(whole)
				}
				f.setBeside(whole, own)
				f.SetAhead(h)
				require.Equal(t, whole, h)
			}
			for r.IntN(4) == 0 {
				spoil()
			}
			if r.IntN(16) == 0 {
				then := f.Copy()
				then.ReplaceToken(fmt.Sprint(tokenStart, i, ".reissued"), "")
				f.Reissue(pointer(r.IntN(2) == 0, h), then)
			}
		}
		last := &stack[len(stack)-1]
		for i := range listed {
			require.True(t, slices.Equal(last.lines(i, false), last.lines(i, last.original())))
		}
		for i := range stack {
			f := &stack[len(stack)-1-i]
			whole := h.Clone()
			f.finalize(h)
			f.compose(whole)
			require.Equal(t, whole, h)
			if last.stands(h) {
				looked++
			}
			if r.IntN(8) == 0 {
				spoil()
			}
		}
	}
	require.Greater(t, looked, 8_000)
}

// pointer returns v, or nothing.
func pointer[T any](there bool, v T) (none T) {
	if there {
		return v
	}
	return none
}
