// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestThreatsOfKeptForms(t *testing.T) {
	const words = "transfer-all"
	body := "order=" + words
	held := func(t *testing.T, options ...option) bool {
		t.Helper()
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		read := newCounted(body)
		resp := send(h, append([]option{with("Accept", "text/html", "Content-Type", urlencoded), func(r *http.Request) {
			r.Host, r.Body, r.ContentLength = "site.example", read, int64(len(body))
		}}, options...)...)
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		page := bodyOf(t, resp)
		require.Equal(t, strings.Contains(page, "<form"), strings.Contains(page, words))
		if !strings.Contains(page, "<form") {
			require.Zero(t, read.read, "not even read")
			require.Contains(t, page, "a short check", "the plain page")
		}
		return strings.Contains(page, words)
	}
	overTLS := func(r *http.Request) { r.TLS = new(tls.ConnectionState) }
	t.Run("T23 another site's form is not made our own", func(t *testing.T) {
		for name, test := range map[string]struct {
			held    bool
			options []option
		}{
			"same-origin":                      {true, []option{with("Sec-Fetch-Site", "same-origin")}},
			"same-origin, no referrer":         {true, []option{with("Sec-Fetch-Site", "same-origin", "Origin", "null")}},
			"same-site":                        {false, []option{with("Sec-Fetch-Site", "same-site")}},
			"cross-site":                       {false, []option{with("Sec-Fetch-Site", "cross-site")}},
			"cross-site, with our Origin":      {false, []option{with("Sec-Fetch-Site", "cross-site", "Origin", "https://site.example")}},
			"none":                             {false, []option{with("Sec-Fetch-Site", "none")}},
			"empty":                            {false, []option{with("Sec-Fetch-Site", "")}},
			"both":                             {false, []option{with("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site")}},
			"a list":                           {false, []option{with("Sec-Fetch-Site", "same-origin, cross-site")}},
			"nothing said":                     {false, nil},
			"Origin ours":                      {true, []option{with("Origin", "http://site.example")}},
			"Origin ours, behind a TLS proxy":  {true, []option{with("Origin", "https://site.example")}},
			"Origin ours, over TLS":            {true, []option{with("Origin", "https://site.example"), overTLS}},
			"Origin ours but for TLS":          {false, []option{with("Origin", "http://site.example"), overTLS}},
			"Origin another's":                 {false, []option{with("Origin", "https://evil.example")}},
			"Origin of a name like ours":       {false, []option{with("Origin", "https://site.example.evil.example")}},
			"Origin of our sibling":            {false, []option{with("Origin", "https://www.site.example")}},
			"Origin of another port":           {false, []option{with("Origin", "https://site.example:8443")}},
			"Origin null":                      {false, []option{with("Origin", "null")}},
			"Origin empty":                     {false, []option{with("Origin", "")}},
			"Origin without scheme":            {false, []option{with("Origin", "site.example")}},
			"Origin of another scheme":         {false, []option{with("Origin", "ftp://site.example")}},
			"two Origins":                      {false, []option{with("Origin", "https://site.example", "Origin", "https://evil.example")}},
			"Origin that is no URL":            {false, []option{with("Origin", "https://site.example:x")}},
			"no Host, no Origin to speak of":   {false, []option{with("Origin", "https://"), func(r *http.Request) { r.Host = "" }}},
			"Referer alone, which may be gone": {false, []option{with("Referer", "https://site.example/form")}},
		} {
			require.Equal(t, test.held, held(t, test.options...), name)
		}
	})
	t.Run("T23 nor another site's multipart form told of", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		resp := send(h, submitting("multipart/form-data; boundary=x", ""), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		require.NotContains(t, bodyOf(t, resp), "This kind of form")
	})
	t.Run("T44 the decision reads no body, and the page a bounded part", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		huge := strings.Repeat("a=b&", 1<<20)
		var seen int
		cfg := keeping(now, middleware.Newcomers)
		read := newCounted(huge)
		cfg.OnDecision = func(context.Context, middleware.Decision) { seen = read.read }
		m := newLimiter(t, cfg).Handler(h.Spy)
		send(m, submitting(urlencoded, ""), func(r *http.Request) { r.Body, r.ContentLength = read, -1 })
		require.Zero(t, seen)
		require.LessOrEqual(t, read.read, 64<<10+1)
		announced := newCounted(huge)
		send(m, submitting(urlencoded, ""), func(r *http.Request) { r.Body, r.ContentLength = announced, int64(len(huge)) })
		require.Zero(t, announced.read)
	})
	t.Run("T24 no cache keeps the page", func(t *testing.T) {
		resp := send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, body))
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	})
	t.Run("the page is no larger than it says", func(t *testing.T) {
		for _, value := range []string{strings.Repeat("'", 64<<10-2), strings.Repeat(`"`, 64<<10-2), strings.Repeat("&", 3), strings.Repeat("\u00e9", 10)} {
			resp := send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, "a="+value))
			require.Less(t, len(bodyOf(t, resp)), 6*64<<10)
		}
		short := strings.TrimSuffix(strings.Repeat("a&", 500), "&")
		require.Less(t, len(bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, short)))), 64<<10)
	})
}
