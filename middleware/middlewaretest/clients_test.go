// SPDX-License-Identifier: Apache-2.0

package middlewaretest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
	"github.com/tallystick/tallystick/proof/kit"
)

var nothing = &http.Response{}

// Three instances that share nothing: an honest client has one quota, and one that forgets has
// one of each.
func TestClientsOfAFleet(t *testing.T) {
	for name, test := range map[string]struct {
		open func(http.Handler, string) *http.Client
		most int
	}{
		"browser":   {middlewaretest.Browser, 5},
		"script":    {middlewaretest.Script, 5},
		"forgetful": {middlewaretest.Forgetful, 15},
	} {
		t.Run(name, func(t *testing.T) {
			clock := middlewaretest.NewClock()
			var instances []http.Handler
			for range 3 {
				instances = append(instances, newSite(t, contact(clock)))
			}
			next := 0
			fleet := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next++
				instances[next%3].ServeHTTP(w, r)
			})
			require.Equal(t, test.most, admitted(t, test.open(fleet, "203.0.113.1"), 30))
			require.Equal(t, test.most, admitted(t, test.open(fleet, "[2001:db8::1]:99"), 30), "another address")
		})
	}
}

func TestTheHandlerSeesARequestOfAServer(t *testing.T) {
	var seen *http.Request
	var body string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		body = string(b)
		w.Header().Set("X-Seen", "1")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Seen", "2")
	})
	resp, err := middlewaretest.Forgetful(h, "").Post("https://example.com/a%2Fb?c=d#e", "text/plain", strings.NewReader("words"))
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("X-Seen"), "what was sent")
	require.Equal(t, "https://example.com/a%2Fb?c=d#e", resp.Request.URL.String())
	require.Equal(t, []any{"192.0.2.1:1234", "example.com", "/a%2Fb?c=d", "", "/a/b", true, "words"},
		[]any{seen.RemoteAddr, seen.Host, seen.RequestURI, seen.URL.Host, seen.URL.Path, seen.TLS != nil, body})

	_, err = middlewaretest.Browser(h, "::1").Get("http://example.com")
	require.NoError(t, err)
	require.Nil(t, seen.TLS)
	require.Equal(t, "[::1]:1234", seen.RemoteAddr)
	require.Equal(t, "/", seen.RequestURI)
	require.Contains(t, seen.Header.Get("Accept"), "text/html")
	require.Equal(t, "same-origin", seen.Header.Get("Sec-Fetch-Site"))
}

func TestDirectErrors(t *testing.T) {
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := middlewaretest.Forgetful(h, "").Get("http://example.com")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = middlewaretest.Forgetful(h, "nonsense").Get("http://example.com")
	require.ErrorContains(t, err, "middlewaretest: ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com", nil)
	require.NoError(t, err)
	_, err = middlewaretest.Forgetful(h, "").Do(req)
	require.ErrorIs(t, err, context.Canceled)
	fault := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault of the handler") })
	require.PanicsWithValue(t, "a fault of the handler", func() { _, _ = middlewaretest.Forgetful(fault, "").Get("http://example.com") })
}

func TestBuyIsForOnceOnly(t *testing.T) {
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.Newcomers))
	browser := middlewaretest.Browser(site, "203.0.113.1")
	require.Equal(t, http.StatusForbidden, post(t, browser).StatusCode)
	require.True(t, middlewaretest.Buy(t, browser, "https://example.com/tally/"))
	require.False(t, middlewaretest.Buy(t, browser, "https://example.com/tally"), "it has one")
	require.Equal(t, 5, admitted(t, browser, 9))
	require.True(t, middlewaretest.Buy(t, browser, "https://example.com/tally/"))
	require.Equal(t, 5, admitted(t, browser, 9))
	said := fails(t, func(t testing.TB) {
		middlewaretest.Buy(t, middlewaretest.Browser(http.NotFoundHandler(), ""), "https://example.com/tally/")
	})
	require.Contains(t, said, "the response (404 Not Found) has no challenge")
}

func TestProveIsAccepted(t *testing.T) {
	site := newSite(t, selling(middlewaretest.NewClock(), middleware.EveryRequest))
	c := middlewaretest.Script(site, "203.0.113.1")
	require.Equal(t, http.StatusOK, post(t, c, middleware.ProofHeader, middlewaretest.Prove(t, post(t, c))).StatusCode)
}

// What Quick changes, and what it leaves.
func TestQuick(t *testing.T) {
	clock := middlewaretest.NewClock()
	cfg := middleware.Config{MaxClients: 7, Challenge: &middleware.Challenge{Work: 1 << 20, Crowd: 3}}
	quick := middlewaretest.Quick(cfg, clock)
	require.Equal(t, clock.Now(), quick.Now())
	require.Equal(t, 7, quick.MaxClients)
	require.EqualValues(t, []int64{16, 3}, []int64{quick.Challenge.Work, quick.Challenge.Crowd})
	require.EqualValues(t, 1<<20, cfg.Challenge.Work, "the other is as it was")
	cfg = middlewaretest.Quick(middleware.Config{MaxClients: 5000, Challenge: &middleware.Challenge{NonceOnly: true}}, nil)
	require.Nil(t, cfg.Now)
	require.Equal(t, 1024, cfg.MaxClients)
	require.Zero(t, cfg.Challenge.Work)
	require.Zero(t, middlewaretest.Quick(middleware.Config{Advanced: middleware.Advanced{InsecureNoMemory: true}}, nil).MaxClients)
}

func TestClock(t *testing.T) {
	clock := middlewaretest.NewClock()
	start := clock.Now()
	require.Zero(t, start.Unix()%86_400)
	require.Equal(t, start, middlewaretest.NewClock().Now(), "always the same")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { clock.Advance(time.Second); clock.Now() })
	}
	all.Wait()
	clock.Advance(-time.Second)
	require.Equal(t, 7*time.Second, clock.Now().Sub(start))
	require.Equal(t, time.Minute, clock.Wait(t, &http.Response{Header: http.Header{"Retry-After": {"60"}}}))
	require.Equal(t, 67*time.Second, clock.Now().Sub(start))
}

// In a bubble time is virtual already.
func TestInABubble(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		cfg := selling(nil, middleware.WhenExhausted)
		site := newSite(t, cfg)
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = "203.0.113.1:4711"
		middlewaretest.Spend(t, site, r)
		require.NotEmpty(t, middlewaretest.OwnTokenAt(t, cfg, ada, 2))
		c := middlewaretest.Script(site, "203.0.113.1")
		require.Zero(t, admitted(t, c, 1))
		time.Sleep(time.Minute)
		require.Equal(t, 5, admitted(t, c, 9))
		require.True(t, middlewaretest.Buy(t, middlewaretest.Browser(site, "203.0.113.1"), "https://example.com/tally/"))
	})
}
