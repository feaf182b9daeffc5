// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server is what is below a guard. It shows the header map with which each WriteHeader came.
type server struct {
	header http.Header
	came   []http.Header
}

func (s *server) Header() http.Header         { return s.header }
func (s *server) Write(b []byte) (int, error) { return len(b), nil }
func (s *server) WriteHeader(int)             { s.came = append(s.came, maps.Clone(s.header)) }

// TestEarlyResponsesAreCopied: HTTP/2 encodes a copy of a map that has a Transfer-Encoding or a
// Content-Length, and else the map itself, whoever writes to it meanwhile.
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
