// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/file"
)

// A spent key is let in ten seconds after a worker has given something back by its receipt,
// of which the middleware does not hear.
func TestRefusalsHearOfWhatAReceiptGivesBack(t *testing.T) {
	counter, err := file.Open(filepath.Join(t.TempDir(), "counts.db"), file.Config{})
	require.NoError(t, err)
	defer counter.Close()
	late := time.Duration(0) // the clock of the instance, which the file does not know
	m, err := middleware.New(middleware.Config{
		Policy:   "api",
		Limits:   []middleware.Limit{{Algorithm: middleware.FixedWindow, Quota: 1, Window: 30 * 24 * time.Hour}},
		Secrets:  [][]byte{bytes.Repeat([]byte("s"), 32)},
		Identity: func(*http.Request) (middleware.Identity, error) { return middleware.APIKey("customer"), nil },
		Exact:    &middleware.Exact{Counter: counter, Outage: middleware.FailClosed, Deadline: 10 * time.Second},
		Now:      func() time.Time { return time.Now().Add(late) },
	})
	require.NoError(t, err)
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		return w.Code
	}
	call, err := m.CallFor(middleware.APIKey("customer"))
	require.NoError(t, err)
	v, err := counter.Take(t.Context(), call)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, ask())
	require.NoError(t, counter.Refund(t.Context(), v.Receipt))
	require.Equal(t, http.StatusTooManyRequests, ask(), "it has not heard of it")
	late = 10 * time.Second
	require.Equal(t, http.StatusOK, ask())
}
