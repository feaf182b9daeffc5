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

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// A pair is a field of a form.
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
func keeping(c *clock, mode middleware.Mode, change ...func(*middleware.Interstitial)) middleware.Config {
	cfg := waiting(c, mode)
	var i middleware.Interstitial
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

// fieldsIn returns the inputs of a page: those that are filled in and, apart, the
// names of those that are to be.
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

// A counted is a body that knows how much of it was read.
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
