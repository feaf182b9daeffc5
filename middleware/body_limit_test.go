// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// http.MaxBytesReader asks the writer that it is given to close the connection, by a method
// that none but the server's own can have. So the limit of bodies belongs outside of the
// limiter; inside of it the body is limited as well, and the connection lives on.
func TestTheLimitOfBodiesBelongsOutside(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	limit := newLimiter(t, contact(new(clock)))
	for _, test := range []struct {
		name   string
		h      http.Handler
		closes bool
	}{
		{"outside", http.MaxBytesHandler(limit.Handler(handler), 10), true},
		{"inside", limit.Handler(http.MaxBytesHandler(handler, 10)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.h)
			defer server.Close()
			resp, err := server.Client().Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", 1000)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.NotEmpty(t, resp.Header.Get("Tallystick-Token"))
			require.Equal(t, test.closes, resp.Close)
		})
	}
}
