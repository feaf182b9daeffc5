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
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// TestMain looks for goroutines that outlive the tests: every server is closed,
// and the middleware itself must not have started any.
func TestMain(m *testing.M) {
	testkit.CollectLess()
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

// lingering returns the stacks of servers, clients and of our own code, once
// they have had the time to end.
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
