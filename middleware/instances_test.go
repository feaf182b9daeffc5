// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEchoingClientOnThreeInstances(t *testing.T) {
	now := new(clock)
	h := inTurn(fleet(t, 3, contactForm(now)))
	tok := spend(t, h, 5)

	refused := send(h, showing(tok))
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode, "the 6th")

	wait, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	require.NoError(t, err)
	now.advance(time.Duration(wait) * time.Second)
	require.Equal(t, http.StatusOK, send(h, showing(tok)).StatusCode, "after its Retry-After")
}

func TestClientsThatDoNotEcho(t *testing.T) {
	t.Run("5 on one instance", func(t *testing.T) {
		require.Equal(t, 5, admitted(inTurn(fleet(t, 1, contactForm(new(clock)))), 60))
	})
	t.Run("at most 15 on three", func(t *testing.T) {
		require.Equal(t, 15, admitted(inTurn(fleet(t, 3, contactForm(new(clock)))), 60))
	})
	t.Run("replaying the first token for ever, on one instance", func(t *testing.T) {
		h := inTurn(fleet(t, 1, contactForm(new(clock))))
		first := spend(t, h, 1)
		require.Equal(t, 4, admitted(h, 60, showing(first)))
	})
	t.Run("replaying the first token for ever, on three", func(t *testing.T) {
		h := inTurn(fleet(t, 3, contactForm(new(clock))))
		first := spend(t, h, 1)
		require.LessOrEqual(t, admitted(h, 60, showing(first)), 14)
	})
}

// A browser opens six connections, all with the cookies of one jar. TLS, because
// browsers and Go's jar keep a __Host- cookie only if it came by it.
func TestSixParallelClientsWithOneCookieJar(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Limits[0].Quota = 50
	h, spy := limited(t, cfg)
	server := httptest.NewTLSServer(h)
	defer server.Close()
	client := server.Client()
	var err error
	client.Jar, err = cookiejar.New(nil)
	require.NoError(t, err)

	var passed atomic.Int64
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for range 12 {
				resp, err := client.Post(server.URL, "text/plain", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 50, passed.Load(), "of 72")
	require.EqualValues(t, 50, spy.calls.Load())
	jar := client.Jar.Cookies(mustURL(t, server.URL))
	require.Len(t, jar, 1)
	require.Equal(t, "__Host-tallystick-contact", jar[0].Name)
}

func TestTokenFromAnotherAddressIsAsIfAbsent(t *testing.T) {
	cfg := contact(new(clock))
	decisions := record(&cfg)
	h, _ := limited(t, cfg)
	server := serve(t, h)
	alice, bob := clientAt(t, "127.0.0.2"), clientAt(t, "127.0.0.3")

	var tok string
	for range 5 {
		tok = tokenIn(over(t, alice, server.URL, showing(tok)))
	}
	require.Equal(t, http.StatusTooManyRequests, over(t, alice, server.URL).StatusCode)

	resp := over(t, bob, server.URL, showing(tok))
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Zero(t, decisions.last().Tokens, "a spent token of somebody else's")
	require.EqualValues(t, 4, decisions.last().Limits()[0].Remaining)
}

func TestSpentNewsletterTokenOnContactChangesNothing(t *testing.T) {
	now := new(clock)
	other := contact(now)
	other.Policy = "newsletter"
	newsletter, _ := limited(t, other)
	h, _ := limited(t, contact(now))

	spent := spend(t, newsletter, 5)
	require.Equal(t, http.StatusTooManyRequests, send(newsletter, showing(spent)).StatusCode)
	with, without := send(h, showing(spent)), send(h, from("203.0.113.2"))
	require.Equal(t, without.StatusCode, with.StatusCode)
	require.Equal(t, without.Header.Get("RateLimit"), with.Header.Get("RateLimit"))
}

func TestRestartInTheMiddleOfAWindow(t *testing.T) {
	now := new(clock)
	before, _ := limited(t, contact(now))
	tok := spend(t, before, 4)
	now.advance(30 * time.Second)

	t.Run("who echoes keeps the tally", func(t *testing.T) {
		after, _ := limited(t, contact(now))
		require.Equal(t, 1, admitted(after, 10, showing(tok)))
	})
	t.Run("who does not has a quota for each start", func(t *testing.T) {
		after, _ := limited(t, contact(now))
		require.Equal(t, 5, admitted(after, 10))
	})
}
