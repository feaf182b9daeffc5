// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// lines are the line breaks that browsers send, whatever a form holds.
var lines = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")

// FuzzInterstitial: whatever is posted, the page is made of the tags that it has
// without fields and one input for each; what a browser reads in them, and sends
// again, is what net/url had found in the body, in order; and the page that this
// is answered with is the same again.
func FuzzInterstitial(f *testing.F) {
	h, _ := limited(f, keeping(new(clock), middleware.Newcomers))
	skeleton := func(t *testing.T, page string) string {
		var names []string
		for _, tag := range tagsIn(t, page) {
			if tag.attributes["type"] == "password" {
				require.Equal(t, []string{"p", "label"}, names[len(names)-2:])
				names = names[:len(names)-2]
			}
			if tag.name != "input" {
				names = append(names, tag.name)
			}
		}
		return strings.ReplaceAll(strings.Join(names, " ")+" ", "/label /p ", "")
	}
	post := func(t *testing.T, body string) string {
		resp := send(h, submitting(urlencoded, body))
		require.Equal(t, 403, resp.StatusCode)
		page := bodyOf(t, resp)
		require.LessOrEqual(t, len(page), 2*len(body)+8<<10)
		require.True(t, utf8.ValidString(page))
		return page
	}
	// A program may call any field secret, and the page says its name. A way back may lead
	// anywhere that a URL can name.
	var cfg = keeping(new(clock), middleware.Newcomers, func(i *middleware.Interstitial) { i.Secret = func(string) bool { return true } })
	all, _ := limited(f, cfg)
	secretive := func(t *testing.T, body string) {
		for _, language := range []string{"en", "fr", "ja"} {
			page := bodyOf(t, send(all, submitting(urlencoded, body), with("Accept-Language", language, "Referer", "https://example.com/?"+body)))
			for _, tag := range tagsIn(t, page) {
				require.Contains(t, []string{
					"!doctype", "html", "meta", "link", "script", "/script", "title", "/title", "main", "/main", "h1", "/h1", "p", "/p", "form", "/form",
					"label", "/label", "input", "tally-check", "/tally-check", "noscript", "/noscript", "button", "/button", "a", "/a",
				}, tag.name)
				if tag.name == "a" {
					require.NotRegexp(t, `^(//|/\\\\|[^/])`, tag.attributes["href"])
					require.LessOrEqual(t, len(tag.attributes["href"]), 2048)
				}
				if tag.name == "script" {
					require.Regexp(t, `^/tally/[0-9a-f]{16}/tally\.js$`, tag.attributes["src"])
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		secretive(t, body)
		page := post(t, body)
		values, err := url.ParseQuery(body)
		if !strings.Contains(page, "<form") {
			require.NotContains(t, page, "<input")
			bad := err != nil || len(body) > 64<<10 || strings.Count(body, "&") >= 100 || len(body) > 2<<10 || strings.ContainsAny(body, "'\"<>") || strings.Contains(strings.ToLower(body), "charset") || values.Has("")
			for name, all := range values {
				for _, text := range append(all, name) {
					bad = bad || !utf8.ValidString(text) || strings.Contains(text, "\x00")
				}
			}
			require.True(t, bad, "a good form is not held")
			return
		}
		require.NoError(t, err)
		require.Equal(t, skeleton(t, post(t, "")), skeleton(t, page))
		fields, secret := fieldsIn(t, page)
		var want []pair
		for part := range strings.SplitSeq(body, "&") {
			one, err := url.ParseQuery(part)
			require.NoError(t, err)
			for name, value := range one {
				want = append(want, pair{name, value[0]})
			}
		}
		require.Len(t, fields, len(want))
		for i := range want {
			require.Equal(t, want[i].name, fields[i].name)
			if len(secret) > 0 && secret[0] == want[i].name && fields[i].value == "" {
				secret, fields[i].value = secret[1:], want[i].value // it is typed again
			}
			require.Equal(t, want[i].value, fields[i].value)
			fields[i] = pair{lines.Replace(fields[i].name), lines.Replace(fields[i].value)}
		}
		require.Empty(t, secret)
		again, _ := fieldsIn(t, post(t, encoded(fields)))
		require.Len(t, again, len(fields))
	})
}
