// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func loopOf(t *testing.T, h http.Handler) *Loop {
	t.Helper()
	l, err := NewLoop(h)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func TestLoopKeepsItsConnection(t *testing.T) {
	peers := map[string]int{}
	l := loopOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peers[r.RemoteAddr+" "+r.Method+" "+r.URL.Path+" "+r.Host]++
		w.Header().Set("Age", "7")
		Served().ServeHTTP(w, r)
	}))
	for range 3 {
		head, err := l.Send(Plainly(nil, nil))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(head, []byte("HTTP/1.1 200 OK\r\n")), "%q", head)
		require.True(t, bytes.HasSuffix(head, []byte("\r\n")) && !bytes.Contains(head, endOfHead), "%q", head)
		require.Equal(t, "7", string(FieldOf(head, []byte("\r\nAge: "))))
		require.Nil(t, FieldOf(head, []byte("\r\nVary: ")))
	}
	require.Len(t, peers, 1)
	for what, n := range peers {
		require.Equal(t, 3, n)
		require.Contains(t, what, " POST /contact peers.test")
	}
}

func TestLoopTellsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		report  string
	}{
		{"no length", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok")
			w.(http.Flusher).Flush()
		}, "does not tell its length"},
		{"too long", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Age", strings.Repeat("7", 16<<10)) }, "an answer of more than"},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unexpected EOF"},
	} {
		_, err := loopOf(t, c.handler).Send(Plainly(nil, nil))
		require.ErrorContains(t, err, c.report, c.name)
	}
}

func TestTripsStopAtAWrongAnswer(t *testing.T) {
	served := 0
	p, closed, err := Trip{Name: "x", Handlers: []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served++; served == 3 {
			http.Error(w, "no", http.StatusTooManyRequests)
			return
		}
		Served().ServeHTTP(w, r)
	})}, Request: Plainly, Status: http.StatusOK}.Player()
	require.NoError(t, err)
	p.Run(2)
	require.NoError(t, p.After(2))
	p.Run(2)
	require.ErrorContains(t, p.After(2), `answered "HTTP/1.1 429`)
	require.Equal(t, 3, served)
	require.NoError(t, closed())
}

// remaining is what the RateLimit field says.
var remaining = regexp.MustCompile(`(?i)\r\nRateLimit: .*;r=(\d+)`)

// What the trips of ours send is accepted: an answer comes by the channel of the token alone.
// The floor has the fields of an answer of ours, byte for byte but for the token's.
func TestTripsAreWhatTheySay(t *testing.T) {
	trips, err := trips(&opening{now: noon})
	require.NoError(t, err)
	heads := map[string][]string{}
	for _, trip := range trips {
		asked := make([]int, len(trip.Handlers))
		for i, h := range trip.Handlers {
			trip.Handlers[i] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked[i]++
				h.ServeHTTP(w, r)
			})
		}
		compose := trip.Request
		trip.Request = func(b, head []byte) []byte {
			heads[trip.Name] = append(heads[trip.Name], string(head))
			return compose(b, head)
		}
		p, closed, err := trip.Player()
		require.NoError(t, err)
		p.Run(9)
		require.NoError(t, p.After(9))
		require.NoError(t, closed())
		for _, n := range asked {
			require.InDelta(t, 9/len(asked), n, 1)
		}
	}
	names := func(head string) (all []string) {
		for _, line := range strings.Split(strings.TrimSpace(head), "\r\n")[1:] {
			name, _, _ := strings.Cut(line, ":")
			if name != "Date" && name != "Content-Length" && name != "Content-Type" {
				all = append(all, name)
			}
		}
		return all
	}
	last := func(name string) string { return heads[name][len(heads[name])-1] }
	require.Empty(t, names(last(None)))
	require.ElementsMatch(t, names(last(Ours+"-post")), names(last(Fields)))
	require.InDelta(t, len(last(Ours+"-post")), len(last(Fields)), 8, "of the digits of a count, and of a time")
	require.Contains(t, names(last(reference)), "X-Ratelimit-Limit")
	for name, channel := range map[string]string{Ours + "-post": tokenHeader, Ours + "-hop": tokenHeader, Ours + "-cookie-post": setCookie} {
		left := -1
		for i, head := range heads[name][1:] {
			fields := names(head)
			require.Contains(t, fields, channel)
			if i > 0 {
				require.NotSubset(t, fields, []string{tokenHeader, setCookie}, "%s: the token was not accepted", name)
			}
			said := remaining.FindStringSubmatch(head)
			require.NotNil(t, said, head)
			r, err := strconv.Atoi(said[1])
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, left-1, r, name)
			}
			left = r
		}
	}
}
