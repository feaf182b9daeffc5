// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/internal/words"
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
		require.Equal(t, "before"+want, string(AppendEscaped([]byte("before"), text)))
	}
}

// The name of the site is whatever the client has sent as a host.
func TestSiteIsEscaped(t *testing.T) {
	title := func(host string) string { return string(appendTitle(nil, "T", "", "", &http.Request{Host: host})) }
	require.Equal(t, "<title>T – &lt;b&gt;&amp;</title>\n<main>\n<p>&lt;b&gt;&amp;</p>\n<h1>T</h1>\n", title("<b>&:80"))
	require.Equal(t, "<title>T</title>\n<main>\n<h1>T</h1>\n", title(strings.Repeat("a", longestHost+1)))
}

// Whatever the cause: where instances disagree, no visitor can do anything, and the page says so.
func TestPageOfASiteThatIsSetUpWrongly(t *testing.T) {
	for _, cause := range []Cause{ProofRequired, QuotaExceeded} {
		r := &http.Request{Method: http.MethodPost}
		require.Contains(t, string(AppendPage(nil, &Refusal{Cause: cause, Setup: true}, http.Header{}, r, "")), words.English.Page().Setup)
		require.NotContains(t, string(AppendPage(nil, &Refusal{Cause: cause}, http.Header{}, r, "")), words.English.Page().Setup)
	}
}
