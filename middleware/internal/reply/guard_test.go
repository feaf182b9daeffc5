// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"maps"
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
					inner.Fields.Within(&outer.Fields)
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
