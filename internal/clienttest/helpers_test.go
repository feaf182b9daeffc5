// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/clienttest"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

const home = "http://home.example"

// play has a client do all cases, and returns the report. The transport is what the client
// sends by; its requests go straight to the server.
func play(t testing.TB, script *clienttest.Server, client func(http.RoundTripper) http.RoundTripper) clienttest.Report {
	t.Helper()
	c := &http.Client{Transport: client(middlewaretest.Direct(script, "192.0.2.7"))}
	for _, todo := range script.Cases(home) {
		for _, r := range todo.Requests {
			req, err := http.NewRequest(r.Method, r.URL, strings.NewReader(r.Body))
			require.NoError(t, err)
			resp, err := c.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
		}
	}
	return script.Report()
}

func newServer(t testing.TB) *clienttest.Server {
	t.Helper()
	script, err := clienttest.New(nil)
	require.NoError(t, err)
	return script
}
