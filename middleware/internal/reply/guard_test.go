// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server stands below a guard. It shows the header map with which each WriteHeader came.
type server struct {
	header http.Header
	came   []http.Header
}

func (s *server) Header() http.Header         { return s.header }
func (s *server) Write(b []byte) (int, error) { return len(b), nil }
func (s *server) WriteHeader(int)             { s.came = append(s.came, maps.Clone(s.header)) }

// A full server has all optional interfaces of a writer. It tells of what it was asked, and what of the header was there then.
type full struct {
	*server
	asked []string
}

func (f *full) note(what string) {
	f.asked, f.came = append(f.asked, what), append(f.came, maps.Clone(f.header))
}

func (f *full) Flush()                                       { f.note("flush") }
func (f *full) Hijack() (net.Conn, *bufio.ReadWriter, error) { f.note("hijack"); return nil, nil, nil }
func (f *full) Push(string, *http.PushOptions) error         { f.note("push"); return nil }
func (f *full) ReadFrom(src io.Reader) (int64, error) {
	f.note("read")
	return io.Copy(io.Discard, src)
}

// TestWrapKeepsTheInterfaces: T36. A handler hears the truth of each of the sixteen sets of optional interfaces, whatever its writer has;
// and whatever it uses first has the fields of the final response, by a method whose fields are set ahead, and cleared, or not. The
// writers below are our own. Each of them is held to its name too.
func TestWrapKeepsTheInterfaces(t *testing.T) {
	for i := range 32 {
		bits, ahead := i%16, i >= 16
		for use, what := range []string{"flush", "hijack", "read", "push", ""} {
			t.Run(fmt.Sprintf("%04b, %s, %t", bits, what, ahead), func(t *testing.T) {
				raw := &full{server: &server{header: http.Header{}}}
				below, g := new(Guard), new(Guard)
				below.ResponseWriter = raw
				writers := [16]http.ResponseWriter{
					below, (*guardF)(below), (*guardH)(below), (*guardFH)(below), (*guardR)(below), (*guardFR)(below), (*guardHR)(below), (*guardFHR)(below),
					(*guardP)(below), (*guardFP)(below), (*guardHP)(below), (*guardFHP)(below), (*guardRP)(below), (*guardFRP)(below), (*guardHRP)(below), (*guardFHRP)(below),
				}
				g.Fields.Lines[Token] = "token"
				w := g.Wrap(writers[bits])
				require.IsType(t, writers[bits], w)
				flusher, flushes := w.(http.Flusher)
				hijacker, hijacks := w.(http.Hijacker)
				reader, reads := w.(io.ReaderFrom)
				pusher, pushes := w.(http.Pusher)
				require.Equal(t, []bool{bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0}, []bool{flushes, hijacks, reads, pushes})
				if ahead {
					g.Fields.SetAhead(raw.header)
					clear(raw.header)
				}
				if use == 4 || bits>>use&1 == 0 {
					_, _ = io.WriteString(w, "ok")
					require.Equal(t, []string{"token"}, raw.header[TokenField])
					require.Empty(t, raw.asked)
					return
				}
				switch what {
				case "flush":
					flusher.Flush()
				case "hijack":
					_, _, _ = hijacker.Hijack()
				case "read":
					_, _ = reader.ReadFrom(strings.NewReader("ok"))
				case "push":
					require.NoError(t, pusher.Push("/style.css", nil))
					w.WriteHeader(http.StatusOK) // a push is no response
				}
				require.Equal(t, []string{what}, raw.asked)
				require.Equal(t, []string{"token"}, raw.header[TokenField], "of a hijack, for a program that writes the response from the map")
				if what != "hijack" {
					require.Equal(t, []string{"token"}, raw.came[len(raw.came)-1][TokenField])
				}
			})
		}
	}
}

// TestEarlyResponsesAreCopied: HTTP/2 encodes a copy of a map that has a Transfer-Encoding or a
// Content-Length, and else the map itself, which others may write to meanwhile.
func TestEarlyResponsesAreCopied(t *testing.T) {
	for name, own := range map[string]http.Header{
		"neither":             {},
		"a Content-Length":    {"Content-Length": {"5"}},
		"a Transfer-Encoding": {"Transfer-Encoding": {"identity"}},
		"without a line":      {"Transfer-Encoding": nil},
	} {
		for _, limiters := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				s := &server{header: maps.Clone(own)}
				var outer, inner Guard
				w := outer.Wrap(s)
				outer.Fields.Lines[Token] = "outer"
				outer.Fields.SetAhead(s.header)
				if limiters == 2 {
					inner.Fields.Lines[RateLimit] = "inner"
					inner.Fields.Within(&outer.Fields, new(Lists))
					w = inner.Wrap(w)
					inner.Fields.SetAhead(s.header)
				}
				before := maps.Clone(s.header)
				for range 2 {
					w.WriteHeader(http.StatusEarlyHints)
					require.Equal(t, before, s.header, "as it was")
				}
				w.WriteHeader(http.StatusOK)
				require.Equal(t, before, s.header)
				for _, early := range s.came[:2] {
					require.Contains(t, early, "Transfer-Encoding")
					require.Equal(t, own["Transfer-Encoding"], early["Transfer-Encoding"])
					require.NotContains(t, early, TokenField)
					require.NotContains(t, early, rateLimitField)
				}
				require.Equal(t, before, s.came[2])
			})
		}
	}
}

// TestEarlyResponsesHaveNoMark: a server that knows nothing of all that sends nothing of it.
func TestEarlyResponsesHaveNoMark(t *testing.T) {
	var g Guard
	rec := httptest.NewRecorder()
	g.Wrap(rec).WriteHeader(http.StatusEarlyHints) // a recorder takes it for the response
	var sent strings.Builder
	require.NoError(t, rec.Result().Header.Write(&sent))
	require.Empty(t, sent.String())
	require.Empty(t, rec.Result().TransferEncoding)
}

// The writers below that flush, or do not.
type (
	flushing   struct{ *server }
	unwrapping struct{ http.ResponseWriter }
	asked      struct{ *server } // it knows when it is asked
	hijacked   struct {
		*server
		err error
	}
)

func (flushing) Flush()                                         {}
func (u unwrapping) Unwrap() http.ResponseWriter                { return u.ResponseWriter }
func (asked) FlushError() error                                 { return fmt.Errorf("no: %w", http.ErrNotSupported) }
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, h.err }

// TestFinalIsToldOnceItIsCertain: what was not done has no outcome.
func TestFinalIsToldOnceItIsCertain(t *testing.T) {
	flush := func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }
	hijack := func(w http.ResponseWriter) error { _, _, err := http.NewResponseController(w).Hijack(); return err }
	for _, test := range []struct {
		name  string
		below func(*server) http.ResponseWriter
		do    func(http.ResponseWriter) error
		first []int // told by what is tried
	}{
		{"a flush", func(s *server) http.ResponseWriter { return flushing{s} }, flush, []int{0}},
		{"a flush beneath", func(s *server) http.ResponseWriter { return unwrapping{unwrapping{flushing{s}}} }, flush, []int{0}},
		{"no flush", func(s *server) http.ResponseWriter { return s }, flush, nil},
		{"no flush beneath", func(s *server) http.ResponseWriter { return unwrapping{unwrapping{s}} }, flush, nil},
		{"no flush, it turns out", func(s *server) http.ResponseWriter { return asked{s} }, flush, []int{0}},
		{"no flush beneath, it turns out", func(s *server) http.ResponseWriter { return unwrapping{asked{s}} }, flush, []int{0}},
		{"a hijack", func(s *server) http.ResponseWriter { return hijacked{s, nil} }, hijack, []int{0, 0}},
		{"a hijack that fails", func(s *server) http.ResponseWriter { return hijacked{s, io.EOF} }, hijack, nil},
		{"no hijack", func(s *server) http.ResponseWriter { return s }, hijack, nil},
	} {
		for _, limiters := range []int{1, 2} {
			t.Run(test.name, func(t *testing.T) {
				var told [2][]int
				var guards [2]Guard
				w := test.below(&server{header: http.Header{}})
				guards[1].Fields.Within(&guards[0].Fields, nil)
				for i := range limiters {
					guards[i].Final = func(status int) { told[i] = append(told[i], status) }
					w = guards[i].Wrap(w)
				}
				err := test.do(w)
				for i := range limiters {
					require.Equal(t, test.first, told[i])
				}
				if err == nil {
					w.WriteHeader(http.StatusSeeOther)
					require.Equal(t, test.first, told[0], "it is said")
					return
				}
				w.WriteHeader(http.StatusSeeOther)
				for i := range limiters {
					require.Equal(t, append(test.first, http.StatusSeeOther), told[i], "it is open")
				}
				require.Equal(t, err, test.do(w))
				_, _ = io.WriteString(w, "see other")
				for i := range limiters {
					require.Equal(t, append(test.first, http.StatusSeeOther), told[i], "it is said")
				}
			})
		}
	}
}

// A guard that something else writes to finalizes for itself, whatever those inside have done.
func TestOnlyTheNextOfAStackIsFinalizedAhead(t *testing.T) {
	with := func(tok string, outer *Guard, below http.ResponseWriter) (*Guard, http.ResponseWriter) {
		g := new(Guard)
		g.Fields.Lines[Token] = tok
		if outer != nil {
			g.Fields.Within(&outer.Fields, nil)
		}
		return g, g.Wrap(below)
	}
	t.Run("what is between knows nothing of the inner one", func(t *testing.T) {
		s := &server{header: http.Header{}}
		first, w := with("first", nil, s)
		_, w = with("between", first, w)
		_, w = with("last", first, w) // of a request that was kept before
		w.WriteHeader(http.StatusOK)
		require.ElementsMatch(t, []string{"first", "between"}, s.came[0][TokenField], "of what it knows of")
	})
	t.Run("a flush that flushes nothing", func(t *testing.T) {
		s := &server{header: http.Header{}}
		first, outer := with("first", nil, asked{s})
		_, w := with("last", first, outer)
		require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
		clear(s.header)
		outer.WriteHeader(http.StatusOK)
		require.NotEmpty(t, s.came[0][TokenField])
	})
}

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

// A handler that serves several requests by one limiter, on one writer, leaves only the last token,
// beside an upstream's.
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
		_, kept := last.extent()
		for i := range listed {
			require.True(t, slices.Equal(last.lines(i, false), last.lines(i, kept)))
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

// A handler between two middlewares may serve the parts of a batch by the inner one, all at once.
func TestPartsOfABatchAddNoLinesToEachOther(t *testing.T) {
	var stack [6]Fields
	var parts sync.WaitGroup
	for i := range stack {
		stack[i].Lines[Token] = fmt.Sprint(i)
	}
	stack[1].Within(&stack[0], new(Lists))
	for i := range stack[2:] {
		parts.Go(func() { stack[2+i].Within(&stack[1], nil) })
	}
	parts.Wait()
	for i := range stack[2:] {
		require.Equal(t, []string{"0", "1", fmt.Sprint(2 + i)}, stack[2+i].lines(Token, true))
	}
}

// pointer returns v, or nothing.
func pointer[T any](there bool, v T) (none T) {
	if there {
		return v
	}
	return none
}
