// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/kit"
)

// Proxies are the networks of the proxies in all tests.
var Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:feed::/48")}

// Wire spells an identity as the limiter sees it, without its doubts.
func Wire(id middleware.Identity) string {
	cfg := Contact(new(Clock))
	cfg.Identity = Only(id)
	m, err := middleware.New(cfg)
	if err != nil {
		return err.Error()
	}
	return TokenIn(Send(m.Handler(new(Spy))))
}

// Polite returns a client that answers challenges, and counts what it solved.
func Polite(t testing.TB) (*http.Client, *atomic.Int64) {
	t.Helper()
	var solves atomic.Int64
	c := ClientAt(t, "127.0.0.1")
	transport := &client.Transport{Base: c.Transport, MaxWait: -1, Workers: 1, MaxSolves: 8, MaxAttempts: 20, Observe: func(e client.Event) {
		if e.Action == "solving" {
			solves.Add(1)
		}
	}}
	return &http.Client{Transport: transport}, &solves
}

// ProxyTo is a reverse proxy in front of a server.
func ProxyTo(t *testing.T, upstream string) http.Handler {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := httputil.NewSingleHostReverseProxy(kit.Must(url.Parse(upstream))(t))
	proxy.Transport = transport
	return proxy
}

// Reader is a plain upstream, which reads what it is sent: that is what has a server answer 100 to an Expect.
func Reader(t *testing.T, before ...http.HandlerFunc) string {
	return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, do := range before {
			do(w, r)
		}
		_, _ = io.WriteString(w, "ok")
	})).URL
}

// Hint answers with an early hint first.
func Hint(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Link")
}

// Main runs the tests of a package, and looks for goroutines that outlive them: every server is closed,
// and the middleware itself must not have started any.
func Main(m *testing.M) {
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

// lingering returns the stacks of servers, clients and of our own code, once they have had the time to end: a busy machine may take long.
func lingering() (left string) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); runtime.Gosched() {
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

// Serve starts a real server on a loopback address.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// ClientAt returns a client that connects from the given loopback address: to a
// server, 127.0.0.2 and 127.0.0.3 are different clients. It keeps cookies.
func ClientAt(t testing.TB, addr string) *http.Client {
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

// Over sends a request over the network and reads the whole response.
func Over(t testing.TB, client *http.Client, url string, options ...Option) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	for _, option := range options {
		option(r)
	}
	resp, err := client.Do(r)
	require.NoError(t, err)
	BodyOf(t, resp)
	return resp
}
