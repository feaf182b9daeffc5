// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusedWays are requests that are refused, each with a body of another length that is the same each time.
func refusedWays() [][]option {
	unknown := func(r *http.Request) { r.RemoteAddr = "@" }
	return [][]option{
		{costing(6)},
		{costing(-1)},
		{unknown},
		{costing(6), html},
		{costing(6), html, with("Accept-Language", "de")},
	}
}

// The body of a refusal is made in room that was another's before: each must be whole, and of
// its own request. A ResponseWriter that reads what it was given after Write has returned
// without an error breaks the contract of [io.Writer]: that is none of ours.
func TestBodiesOfRefusalsAtOnce(t *testing.T) {
	const clients, rounds = 64, 20
	cfg := contact(new(clock))
	cfg.Cost = costOf
	var want []string
	for _, way := range refusedWays() {
		want = append(want, bodyOf(t, send(newLimiter(t, cfg).Handler(new(spy)), way...)))
		require.NotEmpty(t, want[len(want)-1])
		require.NotContains(t, want[:len(want)-1], want[len(want)-1])
	}
	h := newLimiter(t, cfg).Handler(new(spy))
	var got [clients][]string
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			for j := range rounds {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
				from("203.0.113.1")(r)
				for _, option := range refusedWays()[(i+j)%len(want)] {
					option(r)
				}
				h.ServeHTTP(w, r)
				got[i] = append(got[i], w.Body.String())
			}
		})
	}
	all.Wait()
	for i := range got {
		for j, body := range got[i] {
			require.Equal(t, want[(i+j)%len(want)], body)
		}
	}
}

// A brokenOff is a writer that fails and still has what it was given to send, as that of HTTP/2
// has when the client resets the stream in the middle of it.
type brokenOff struct {
	sink
	given []byte
}

func (f *brokenOff) Write(b []byte) (int, error) {
	f.given = b
	return 0, errors.New("stream closed")
}

func TestBodyThatWasNotWrittenIsNotUsedAgain(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Cost = costOf
	h := newLimiter(t, cfg).Handler(new(spy))
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	from("203.0.113.1")(r)
	costing(6)(r)
	for range 100 { // a pool may drop what it is given: then nothing is used again
		w := &brokenOff{sink: sink{Fields: http.Header{}}}
		h.ServeHTTP(w, r)
		was := string(w.given)
		require.Contains(t, was, "cost-above-quota")
		require.Equal(t, http.StatusForbidden, send(h, func(r *http.Request) { r.RemoteAddr = "@" }).StatusCode)
		require.Equal(t, was, string(w.given), "the next client's body is sent to this one")
	}
}
