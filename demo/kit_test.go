// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/middlewaretest"
)

// The site as its handler, without a network: what a program that uses the library tests
// by its kit.

// handled returns the site, and the clock it goes by.
func handled(t *testing.T, count int) (http.Handler, *middlewaretest.Clock) {
	t.Helper()
	clock := middlewaretest.NewClock()
	o := standard(count)
	o.now, o.log = clock.Now, slog.New(slog.DiscardHandler)
	site, err := newInstances(o, [][]byte{[]byte(strings.Repeat("s", 32))}, memory.New(0, clock.Now))
	require.NoError(t, err)
	return site, clock
}

// filled is a request that sends a form, from an address.
func filled(path, body, addr string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = addr + ":4711"
	return r
}

// text returns the body of a response.
func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// sent has a client send a form.
func sent(t *testing.T, c *http.Client, path, body string) (*http.Response, string) {
	t.Helper()
	values, err := url.ParseQuery(body)
	require.NoError(t, err)
	resp, err := c.PostForm("http://localhost"+path, values)
	require.NoError(t, err)
	return resp, text(t, resp)
}

func TestRefusalInABrowserIsAPage(t *testing.T) {
	site, clock := handled(t, 1)
	r := filled("/contact", goodContact, "203.0.113.1")
	r.Header.Set("Accept", "text/html")
	refusal := middlewaretest.Spend(t, site, r)
	require.Contains(t, text(t, refusal), "5 per minute", "what may be another site's gets the plain page")
	browser := middlewaretest.Browser(site, "203.0.113.1")
	resp, page := sent(t, browser, "/contact", goodContact)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Contains(t, page, "Try again in ")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))

	resp, page = sent(t, middlewaretest.Browser(site, "203.0.113.2"), "/contact", goodContact)
	require.Equal(t, http.StatusOK, resp.StatusCode, "somebody else is not refused")
	require.Contains(t, page, "<h1>Accepted</h1>")

	clock.Wait(t, refusal)
	resp, _ = sent(t, browser, "/contact", goodContact)
	require.Equal(t, "/accepted", resp.Request.URL.Path)
}

func TestNewsletterSellsNothing(t *testing.T) {
	site, _ := handled(t, 1)
	refusal := middlewaretest.Spend(t, site, filled("/newsletter", goodNewsletter, "203.0.113.1"))
	require.Empty(t, refusal.Header.Get(middleware.ChallengeHeader))
	require.NotContains(t, text(t, refusal), "challenge")
	resp, err := middlewaretest.Forgetful(site, "203.0.113.1").Get("http://localhost/tally/newsletter/challenge")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

// What the element does in a page, and then the form.
func TestSignupInABrowser(t *testing.T) {
	for _, instances := range []int{1, 3} {
		t.Run(strconv.Itoa(instances), func(t *testing.T) {
			site, _ := handled(t, instances)
			browser := middlewaretest.Browser(site, "203.0.113.1")
			const endpoint = "http://localhost/tally/signup/"
			require.True(t, middlewaretest.Buy(t, browser, endpoint))
			for range 3 {
				require.False(t, middlewaretest.Buy(t, browser, endpoint), "it is carried by a cookie")
				resp, page := sent(t, browser, "/signup", goodSignup)
				require.Equal(t, http.StatusOK, resp.StatusCode, page)
				require.Equal(t, "/accepted", resp.Request.URL.Path)
			}
			resp, _ := sent(t, browser, "/signup", goodSignup)
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.True(t, middlewaretest.Buy(t, browser, endpoint), "the next one is for sale")
			resp, _ = sent(t, browser, "/signup", goodSignup)
			require.Equal(t, "/accepted", resp.Request.URL.Path)
		})
	}
}
