// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/kit"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u := kit.Must(url.Parse(text))(t)
	return u
}

// An upstream that limits the proxy, as it says in every field there is.
func upstream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("RateLimit-Policy", `"theirs";q=9;w=1`)
	w.Header().Set("RateLimit", `"theirs";r=8;t=1`)
	w.Header().Set("X-RateLimit-Remaining", "8")
	w.WriteHeader(http.StatusEarlyHints) // ReverseProxy passes it on, and clears the header map
	_, _ = fmt.Fprint(w, r.Header.Get("X-Forwarded-For"), r.Header.Get(middleware.TokenHeader))
}

func TestFieldsOfTheUpstream(t *testing.T) {
	behind := loopback.Serve(t, http.HandlerFunc(upstream))
	url := loopback.Serve(t, loopback.New(t, loopback.Config("api", 2)).Handler(proxy(parse(t, behind))))
	first := loopback.Send(t, http.MethodGet, url, "", "X-Forwarded-For", "192.0.2.1")
	loopback.RequireFields(t, first, `"api";r=1;t=60`)
	require.Equal(t, "127.0.0.1", first.Body, "the peer, and neither what the client says nor its token")
	require.Empty(t, first.Header.Get("X-RateLimit-Remaining"))
	second := loopback.Send(t, http.MethodPost, url, "", middleware.TokenHeader, first.Token())
	require.Equal(t, []string{`"api";r=0;t=60`}, second.Header.Values("RateLimit"))
	require.Equal(t, "127.0.0.1", second.Body)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodPost, url, "").Status)
}

// Without ModifyResponse the client of a POST hears both limiters, and each reads the
// upstream's X-RateLimit-Remaining, which tells of the proxy.
func TestFieldsOfBoth(t *testing.T) {
	behind := loopback.Serve(t, http.HandlerFunc(upstream))
	both := httputil.NewSingleHostReverseProxy(parse(t, behind))
	url := loopback.Serve(t, loopback.New(t, loopback.Config("api", 2)).Handler(both))
	for method, fields := range map[string][]string{
		http.MethodGet:  {`"api"`},
		http.MethodPost: {`"api"`, `"theirs"`},
	} {
		a := loopback.Send(t, method, url, "")
		require.Len(t, a.Header.Values("RateLimit"), len(fields))
		for i, name := range fields {
			require.Contains(t, a.Header.Values("RateLimit")[i], name)
		}
		require.Equal(t, "8", a.Header.Get("X-RateLimit-Remaining"))
		require.NotEmpty(t, a.Token())
	}
}

// An upstream that is down costs the client nothing.
func TestTheUpstreamIsDown(t *testing.T) {
	p := proxy(parse(t, "http://127.0.0.1:"+kit.FreePort(t))).(*httputil.ReverseProxy)
	url := loopback.Serve(t, loopback.New(t, loopback.Config("api", 1)).Handler(p))
	for range 3 {
		a := loopback.Send(t, http.MethodPost, url, "")
		require.Equal(t, http.StatusBadGateway, a.Status)
		require.NotEmpty(t, a.Header.Get("RateLimit-Policy"))
	}
}

// A connection that the upstream has switched counts until it is closed.
func TestConcurrencyOfSwitchedConnections(t *testing.T) {
	behind := loopback.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = buf.Flush()
		_, _ = buf.ReadString('\n')
	}))
	cfg := loopback.Config("api", 9)
	cfg.Concurrency = &middleware.Concurrency{Max: 1, CancelHeld: true}
	front := loopback.Serve(t, loopback.New(t, cfg).Handler(proxy(parse(t, behind))))
	conn := kit.Must(net.Dial("tcp", parse(t, front).Host))(t)
	defer conn.Close()
	kit.Must(fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"))(t)
	resp := kit.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get(middleware.TokenHeader))
	refused := loopback.Send(t, http.MethodGet, front, "")
	require.Equal(t, http.StatusTooManyRequests, refused.Status)
	require.Contains(t, refused.Body, string(middleware.TooManyAtOnce))
}
