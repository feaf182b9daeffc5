// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { mainOf(m) }

// onSocket serves on a Unix socket, where no connection has an address, and returns its client.
func onSocket(t testing.TB, h http.Handler) *http.Client {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// browser serves over TLS, and returns where, and a client with a jar: that keeps a __Host- cookie only if
// it came by it.
func browser(t testing.TB, h http.Handler) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	client = server.Client()
	var err error
	client.Jar, err = cookiejar.New(nil)
	require.NoError(t, err)
	return server.URL, client
}

// upgraded takes a connection over, and answers that its protocol is another.
func upgraded(t testing.TB, w http.ResponseWriter) net.Conn {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		panic(http.ErrAbortHandler)
	}
	_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = buf.Flush()
	return conn
}

// admittedOver is admitted over the network: of n requests those that are answered 200.
func admittedOver(t testing.TB, client *http.Client, url string, n int, options ...option) (passed int) {
	t.Helper()
	for range n {
		if over(t, client, url, options...).StatusCode == http.StatusOK {
			passed++
		}
	}
	return passed
}

// hanging takes connections over, but of a GET, and keeps each until it is told to close.
func hanging(t testing.TB, hang chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		conn := upgraded(t, w)
		go func() {
			<-hang
			_ = conn.Close()
			_ = conn.Close() // ends nothing twice
			hang <- struct{}{}
		}()
	}
}
