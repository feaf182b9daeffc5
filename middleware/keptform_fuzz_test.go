// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	entities "html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// lines are the line breaks that browsers send, whatever a form holds.
var lines = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")

// FuzzKeptForm: whatever is posted, the page is made of the tags that it has without fields and one input for
// each; what a browser reads in them, and sends again, is what net/url had found in the body, in order; and the page
// that this is answered with is the same again.
func FuzzKeptForm(f *testing.F) {
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
		resp := requireStatus(t, 403, send(h, submitting(urlencoded, body)))
		page := bodyOf(t, resp)
		require.LessOrEqual(t, len(page), 2*len(body)+8<<10)
		require.True(t, utf8.ValidString(page))
		return page
	}
	// A program may call any field secret, and the page says its name. A way back may lead
	// anywhere that a URL can name.
	var cfg = keeping(new(clock), middleware.Newcomers, func(i *keptform.Handler) { i.Secret = func(string) bool { return true } })
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

type pair struct{ name, value string }

// encoded is what a browser sends for the fields of a form.
func encoded(fields []pair) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, url.QueryEscape(f.name)+"="+url.QueryEscape(f.value))
	}
	return strings.Join(parts, "&")
}

const urlencoded = "application/x-www-form-urlencoded"

// submitting is what a browser sends for a form, from a page of the same origin.
func submitting(contentType, body string) option {
	return func(r *http.Request) {
		with("Accept", "text/html,*/*;q=0.8", "Content-Type", contentType, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate")(r)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// keeping is a site whose forms are kept.
func keeping(c *clock, mode middleware.Mode, change ...func(*keptform.Handler)) middleware.Config {
	cfg := waiting(c, mode)
	var i keptform.Handler
	for _, change := range change {
		change(&i)
	}
	cfg.PageHandler = i
	return cfg
}

// A tag of a page, with its attributes as a browser reads them.
type tag struct {
	name       string
	attributes map[string]string
}

// tagsIn reads a page: an oracle that knows as much of HTML as there is in ours.
// Whatever it does not know fails the test.
func tagsIn(t testing.TB, page string) (tags []tag) {
	t.Helper()
	page = strings.ReplaceAll(strings.ReplaceAll(page, "\r\n", "\n"), "\r", "\n") // as parsers do
	for {
		_, after, found := strings.Cut(page, "<")
		if !found {
			return tags
		}
		end := strings.IndexAny(after, " >\n")
		require.Positive(t, end, "a tag in %q", after)
		one := tag{after[:end], map[string]string{}}
		page = after[end:]
		for page[0] != '>' {
			page = page[1:]
			stop := strings.IndexAny(page, "=> ")
			require.Positive(t, stop, "an attribute of %s in %q", one.name, page)
			name := page[:stop]
			require.Regexp(t, `^[a-z-]+$`, name)
			require.NotContains(t, one.attributes, name)
			one.attributes[name] = ""
			if page = page[stop:]; page[0] == '=' {
				require.Equal(t, byte('"'), page[1], "a value without quotes")
				value, rest, found := strings.Cut(page[2:], `"`)
				require.True(t, found)
				require.NotContains(t, value, "<")
				one.attributes[name], page = entities.UnescapeString(value), rest
			}
			require.NotEmpty(t, page)
		}
		page = page[1:]
		tags = append(tags, one)
	}
}

// fieldsIn returns the inputs of a page: those that are filled in and, apart, the names of those that are to be.
func fieldsIn(t testing.TB, page string) (all []pair, secret []string) {
	t.Helper()
	for _, tag := range tagsIn(t, page) {
		if tag.name != "input" {
			continue
		}
		switch tag.attributes["type"] {
		case "hidden":
			require.Len(t, tag.attributes, 3)
		case "password":
			require.NotContains(t, tag.attributes, "value")
			require.Contains(t, tag.attributes, "required")
			secret = append(secret, tag.attributes["name"])
		default:
			require.Fail(t, "an input of type "+tag.attributes["type"])
		}
		all = append(all, pair{tag.attributes["name"], tag.attributes["value"]})
	}
	return all, secret
}

type counted struct {
	bytes.Reader
	read int
}

func newCounted(body string) *counted {
	c := new(counted)
	c.Reset([]byte(body))
	return c
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += n
	return n, err
}

func (c *counted) Close() error { return nil }

// kept is what a new site whose forms are kept answers to a form: its page.
func kept(t testing.TB, body string, change ...func(*keptform.Handler)) string {
	t.Helper()
	return bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers, change...)), submitting(urlencoded, body)))
}
