// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever can end a text or a value, in either kind of quotes, is escaped, and so is
// what a parser would change.
func TestEscaping(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"plain \u00e9 \U0001f600\n": "plain \u00e9 \U0001f600\n",
		"&lt;":                      "&amp;lt;",
		`"><script>`:                "&#34;&gt;&lt;script&gt;",
		"' onfocus='x":              "&#39; onfocus=&#39;x",
		"a\r\nb\rc":                 "a&#13;\nb&#13;c",
	} {
		require.Equal(t, "before"+want, string(appendEscaped([]byte("before"), text)))
	}
}

// Names are written by the page that has sent the form, as values are.
func TestFieldsAreEscaped(t *testing.T) {
	written := func(body string, isSecret bool) string {
		f := fieldWriter{most: 1 << 20, words: &speech[0], isSecret: func(string) bool { return isSecret }}
		require.Equal(t, isKept, f.write([]byte(body)))
		return string(f.page)
	}
	require.Equal(t, "<input type=\"hidden\" name=\"n&#34;&lt;\" value=\"v&#34;&lt; &#39;\">\n", written("n%22<=v\"%3c+'", false))
	require.Equal(t, "<p><label>“n&#34;&lt;” (please type it again) <input type=\"password\" required autofocus name=\"n&#34;&lt;\"></label></p>\n",
		written("n%22%3C=v%22%3C", true), "without its value")
}

// The name of the site is whatever somebody has sent as a host.
func TestSiteIsEscaped(t *testing.T) {
	title := func(host string) string { return string(appendTitle(nil, "T", "", &http.Request{Host: host})) }
	require.Equal(t, "<title>T – &lt;b&gt;&amp;</title>\n<main>\n<p>&lt;b&gt;&amp;</p>\n<h1>T</h1>\n", title("<b>&:80"))
	require.Equal(t, "<title>T</title>\n<main>\n<h1>T</h1>\n", title(strings.Repeat("a", longestHost+1)))
}
