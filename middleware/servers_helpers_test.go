// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

func TestMain(m *testing.M) { mainOf(m) }

// mainOf runs the tests of a package, and looks for goroutines that outlive them: every server is closed,
// and the middleware itself must not have started any.
func mainOf(m *testing.M) {
	kit.CollectLess()
	if flag.Parse(); !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler)) // what fails is not to be looked for among lines of what passed
	}
	code := m.Run()
	if left := lingering(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines outlive the tests:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// patient is when a test gives up on what is bound to come: a busy machine may take
// long, and no test judges how long.
const patient = 5 * time.Minute

// lingering returns the stacks of servers, clients and of our own code, once they have had the time to end.
func lingering() (left string) {
	for deadline := time.Now().Add(patient); time.Now().Before(deadline); runtime.Gosched() {
		buf := make([]byte, 1<<20)
		left = ""
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "TestMain") {
				continue
			}
			if strings.Contains(stack, "net/http.") || strings.Contains(stack, "tallystick/middleware") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// serve starts a real server on a loopback address.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

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

// clientAt returns a client that connects from the given loopback address: to a
// server, 127.0.0.2 and 127.0.0.3 are different clients. It keeps cookies.
func clientAt(t testing.TB, addr string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// over sends a request over the network and reads the whole response.
func over(t testing.TB, client *http.Client, url string, options ...option) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	for _, option := range options {
		option(r)
	}
	resp, err := client.Do(r)
	require.NoError(t, err)
	bodyOf(t, resp)
	return resp
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
