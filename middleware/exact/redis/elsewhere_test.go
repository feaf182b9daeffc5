// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A spent key is let in ten seconds after something was given back by its receipt, elsewhere,
// or after an operator has deleted its account: on the instance that has refused it, and on
// those that are shown its token.
func TestRefusalsHearOfWhatIsChangedElsewhere(t *testing.T) {
	s := startServer(t)
	counter := open(t, s.url())
	var late atomic.Int64 // the clocks of the instances, which the server does not know
	instance := func() (*middleware.Middleware, http.Handler) {
		m, err := middleware.New(middleware.Config{
			Policy:   "api",
			Limits:   []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 1, Window: 30 * 24 * time.Hour}},
			Secrets:  [][]byte{bytes.Repeat([]byte("s"), 32)},
			Identity: func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("customer"), nil },
			Exact:    &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: deadline},
			Now:      func() time.Time { return time.Now().Add(time.Duration(late.Load())) },
		})
		require.NoError(t, err)
		return m, m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	m, a := instance()
	_, b := instance()
	token := ""
	ask := func(h http.Handler) int {
		r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
		r.Header.Set(middleware.TokenHeader, token)
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests && w.Header().Get(middleware.TokenHeader) != "" {
			token = w.Header().Get(middleware.TokenHeader)
		}
		return w.Code
	}
	call, err := m.CallFor(middleware.APIKey("customer"))
	require.NoError(t, err)
	var receipt exact.Receipt
	for name, gives := range map[string]func(){
		"a receipt":  func() { require.NoError(t, counter.Refund(context.Background(), receipt)) },
		"a deletion": func() { s.do("FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			s.do("FLUSHALL")
			call.ID = strings.ReplaceAll(name, " ", "-")
			v, err := counter.Take(t.Context(), call)
			require.NoError(t, err)
			require.True(t, v.Admitted)
			receipt = v.Receipt
			require.Equal(t, http.StatusTooManyRequests, ask(a))
			gives()
			require.Equal(t, http.StatusTooManyRequests, ask(a), "it has not heard of it")
			late.Add(int64(10 * time.Second))
			require.Equal(t, http.StatusOK, ask(b))
			s.do("FLUSHALL")
			require.Equal(t, http.StatusOK, ask(a))
			late.Add(int64(10 * time.Second))
		})
	}
}
