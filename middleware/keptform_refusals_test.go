// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// What cannot be held as it was is not held at all.
func TestFormsThatAreNotHeld(t *testing.T) {
	many := encoded(slices.Repeat([]pair{{"a", "b"}}, 101))
	for name, test := range map[string]struct {
		contentType, body, says string
	}{
		"multipart":               {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nsecretive\r\n--x--\r\n", "This kind of form"},
		"multipart, no boundary":  {"multipart/form-data", "secretive", "This kind of form"},
		"too long":                {urlencoded, "a=" + strings.Repeat("b", 64<<10-1), "too long"},
		"too many fields":         {urlencoded, many, "too long"},
		"a name too long":         {urlencoded, strings.Repeat("n", 257) + "=b", "too long"},
		"names too long":          {urlencoded, strings.Repeat(strings.Repeat("n", 128)+"=b&", 16) + "n=b", "too long"},
		"too many secrets":        {urlencoded, strings.Repeat("pin=1&", 80), "too long"},
		"more than twice as long": {urlencoded, "a=" + strings.Repeat("'", 4<<10), "too long"},
		"broken escape":           {urlencoded, "a=%4", "cannot keep"},
		"broken escape of a name": {urlencoded, "%zz=1", "cannot keep"},
		"not UTF-8":               {urlencoded, "a=%E9", "cannot keep"},
		"name not UTF-8":          {urlencoded, "%E9=1", "cannot keep"},
		"surrogate":               {urlencoded, "a=%ED%A0%80", "cannot keep"},
		"raw bytes":               {urlencoded, "a=\xff", "cannot keep"},
		"NUL":                     {urlencoded, "a=%00", "cannot keep"},
		"raw NUL":                 {urlencoded, "a=\x00", "cannot keep"},
		"no name":                 {urlencoded, "=b", "cannot keep"},
		"semicolon":               {urlencoded, "a=b;c=d", "cannot keep"},
		"another charset":         {urlencoded + "; charset=iso-8859-1", "a=b", "cannot keep"},
		"a charset within":        {urlencoded, "a=b&_charset_=windows-1252", "cannot keep"},
		"broken parameters":       {urlencoded + "; charset", "a=b", "cannot keep"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, keeping(new(clock), middleware.Newcomers))
			resp := requireStatus(t, http.StatusForbidden, send(h, submitting(test.contentType, test.body)))
			require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
			require.Len(t, resp.Header.Values("Content-Security-Policy"), 1)
			require.NotEmpty(t, waitCookieIn(t, resp))
			page := bodyOf(t, resp)
			require.Contains(t, page, test.says)
			require.Contains(t, page, "Please go back")
			require.Contains(t, page, "Try again in 5 seconds.")
			require.NotContains(t, page, "<form")
			require.NotContains(t, page, "secretive")
		})
	}
	held := func(t *testing.T, options ...option) bool {
		return strings.Contains(bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers)), options...)), "<form")
	}
	t.Run("as much as is allowed", func(t *testing.T) {
		for _, body := range []string{
			"a=" + strings.Repeat("b", 64<<10-2), strings.TrimSuffix(many, "&a=b"), strings.Repeat("n", 256) + "=b",
			strings.Repeat(strings.Repeat("n", 128)+"=b&", 16), strings.Repeat("pin=1&", 20), "a=" + strings.Repeat("%22", 21<<10), // as browsers write it
			"",
		} {
			require.Contains(t, kept(t, body), "<form", "%.40q", body)
		}
		require.True(t, held(t, submitting(urlencoded+"; charset=UTF-8", "a=b&_charset_=UTF-8&&")))
	})
	t.Run("length not announced", func(t *testing.T) {
		unknown := func(r *http.Request) { r.ContentLength = -1 }
		require.True(t, held(t, submitting(urlencoded, "a=b"), unknown))
		require.False(t, held(t, submitting(urlencoded, "a="+strings.Repeat("b", 64<<10)), unknown))
	})
	t.Run("shorter than announced", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) { r.ContentLength = 9 }))
	})
	t.Run("compressed", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), with("Content-Encoding", "gzip")))
	})
	t.Run("parsed before", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) { require.NoError(t, r.ParseForm()) }))
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) {
			require.NoError(t, r.ParseForm())
			r.ContentLength = -1
		}))
	})
	t.Run("MaxBody", func(t *testing.T) {
		five := func(i *keptform.Handler) { i.MaxBody = 5 }
		require.Contains(t, kept(t, "a=bcd", five), "<form")
		require.Contains(t, kept(t, "a=bcde", five), "too long")
	})
}

// What is no form of a browser gets the page that it would get without.
func TestKeptFormLeavesTheRestAlone(t *testing.T) {
	form := submitting(urlencoded, "a=b")
	replace := func(name string, values ...string) option {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for name, options := range map[string][]option{
		"GET":                    {form, method("GET")},
		"HEAD":                   {form, method("HEAD")},
		"PUT":                    {form, method("PUT")},
		"JSON":                   {submitting("application/json", `{"a":"b"}`)},
		"text":                   {submitting("text/plain", "a=b")},
		"no type":                {form, replace("Content-Type")},
		"two types":              {form, replace("Content-Type", urlencoded, urlencoded)},
		"a script's own request": {form, replace("Sec-Fetch-Mode", "cors")},
		"multipart by a script":  {submitting("multipart/form-data; boundary=x", ""), replace("Sec-Fetch-Mode", "same-origin")},
	} {
		t.Run(name, func(t *testing.T) {
			plain := newSite(t, waiting(new(clock), middleware.Newcomers))
			kept := newSite(t, keeping(new(clock), middleware.Newcomers))
			want, got := send(plain, options...), send(kept, options...)
			require.Equal(t, want.StatusCode, got.StatusCode)
			require.Equal(t, want.Header.Get("Content-Type"), got.Header.Get("Content-Type"))
			if isPage := got.Header.Get("Content-Type") == "text/html; charset=utf-8"; isPage {
				require.Equal(t, strings.ReplaceAll(bodyOf(t, want), challengeIn(t, want).Text, "…"), strings.ReplaceAll(bodyOf(t, got), challengeIn(t, got).Text, "…"))
			} else {
				require.Equal(t, middleware.NoToken, problemIn(t, got).Reason)
			}
			require.Equal(t, want.Header.Values("Content-Security-Policy"), got.Header.Values("Content-Security-Policy"))
			own := newSite(t, keeping(new(clock), middleware.Newcomers, func(i *keptform.Handler) {
				i.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			}))
			require.Equal(t, http.StatusTeapot, send(own, options...).StatusCode)
		})
	}
	t.Run("programs", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, submitting(urlencoded, "a=b"), replace("Accept", "*/*"))).Reason)
	})
	t.Run("programs, as Config.RefusalHandler", func(t *testing.T) {
		cfg := waiting(new(clock), middleware.Newcomers)
		cfg.RefusalHandler = keptform.Handler{}
		h := newSite(t, cfg)
		require.Equal(t, middleware.NoToken, problemIn(t, send(h)).Reason)
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, form, replace("Accept", "*/*"))).Reason)
		require.Contains(t, bodyOf(t, send(h, form)), "<form")
	})
	t.Run("refusals that sending again does not change", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Cost = costOf
		h := newSite(t, cfg)
		own := bought(t, h)
		page := bodyOf(t, send(h, form, costing(100), showing(own)))
		require.Contains(t, page, "This page cannot be opened")
	})
	t.Run("admitted", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		ticket := waitCookieIn(t, send(h, form))
		now.Advance(5 * time.Second)
		require.Equal(t, "ok", bodyOf(t, send(h, form, holding(ticket))))
	})
	t.Run("nobody's page", func(t *testing.T) {
		require.Equal(t, http.StatusInternalServerError, send(keptform.Handler{}).StatusCode)
	})
}
