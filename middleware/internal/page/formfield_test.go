// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written are the inputs for a body, as a page of at most so many bytes has them.
func written(body string, most int) (string, why) {
	f := fieldWriter{most: most, words: &speech[0]}
	why := f.write([]byte(body))
	return string(f.page), why
}

func TestWhatIsNotKept(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for body, want := range map[string]why{
		long + "=x":        isKept,
		long + "n=x":       whyLong,
		"%6e" + long + "=": whyLong,
		strings.Repeat(long+"=x&", maxNames/maxName):         isKept,
		strings.Repeat(long+"=x&", maxNames/maxName) + "n=x": whyLong,
		strings.Repeat("n=x&", maxFields):                    isKept,
		strings.Repeat("n=x&", maxFields) + "n=x":            whyLong,
		"a=%4": whyStrange, "a=%zz": whyStrange, "%4=a": whyStrange, "a=%0g": whyStrange, "=a": whyStrange, "a=b;c": whyStrange,
		"a=%00": whyStrange, "a=\x00": whyStrange, "%00=a": whyStrange, "a=%E9": whyStrange, "%E9=a": whyStrange, "a=%C3&b=%A9": whyStrange,
		"password=%E9": whyStrange, "_charset_=latin1": whyStrange, "_CHARSET_=UTF-8": isKept, "&&": isKept, "": isKept,
	} {
		_, got := written(body, 1<<20)
		require.Equal(t, want, got, "%.40q", body)
	}
}

// A page is no longer than it may be, nor is anything longer made on the way.
func TestAPageHasABound(t *testing.T) {
	for _, value := range []string{strings.Repeat("'", 1000), strings.Repeat("%22", 1000)} {
		page, why := written("a="+value, 1<<20)
		require.Equal(t, isKept, why)
		require.Less(t, len(page), 5100)
		_, why = written("a="+value, len(page))
		require.Equal(t, isKept, why)
		half := fieldWriter{most: len(page) / 2, words: &speech[0]}
		require.Equal(t, whyLong, half.write([]byte("a="+value)))
		require.LessOrEqual(t, len(half.page), len(page)/2+20)
	}
}

// Every word of the table is found, where it should be.
func TestSecretNames(t *testing.T) {
	var n nameReader
	kind := func(name string) secretKind { return n.kind([]byte(name)) }
	for _, names := range secretNames {
		for word := range strings.FieldsSeq(names.words) {
			require.Equal(t, names.kind, kind(word), word)
			require.Equal(t, names.kind, kind("a_"+strings.ToUpper(word)+"_9"), word)
			require.Equal(t, names.kind, kind("a["+word+"2]"), word)
			if !names.whole {
				require.Equal(t, names.kind, kind("zz"+word+"zz"), word)
			} else if word != "pass" && word != "card" { // words begin so
				require.Equal(t, notSecret, kind("zz"+word), word)
				require.Equal(t, notSecret, kind(word+"zz"), word)
			}
		}
	}
	for name, want := range map[string]secretKind{
		"cc_no": cardNumber, "cc-n-o": notSecret, "userPin": pin, "userpin": notSecret, "1pin": pin, "PassCode": otherSecret, "card_cvv": cardCode,
		"\u043d\u043e\u0432\u044b\u0439\u041f\u0430\u0440\u043e\u043b\u044c": password, "CONTRASEÑA": password, "naïve": notSecret, "": notSecret,
	} {
		require.Equal(t, want, kind(name), name)
	}
}

// What is no browser's is not parsed: a type takes as long as it is, and so does an address.
func TestFieldsOfAnyLength(t *testing.T) {
	r := &http.Request{Method: http.MethodPost, Host: "a.example", Header: http.Header{"Content-Type": {string(URLEncoded) + "; boundary=" + strings.Repeat("b", 70)}}}
	require.Equal(t, URLEncoded, KindOf(r))
	r.Header.Set("Content-Type", string(URLEncoded)+strings.Repeat(";a=b", 100))
	require.Equal(t, NoForm, KindOf(r))
	r.Header.Set("Referer", (&url.URL{Scheme: "https", Host: "a.example", Path: "/x", Fragment: strings.Repeat("f", maxBack)}).String())
	require.Equal(t, "/x", backOf(r))
	r.Header.Set("Referer", r.Header.Get("Referer")+strings.Repeat("f", maxBack))
	require.Empty(t, backOf(r))
}

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
	title := func(host string) string { return string(appendTitle(nil, "T", "", "", &http.Request{Host: host})) }
	require.Equal(t, "<title>T – &lt;b&gt;&amp;</title>\n<main>\n<p>&lt;b&gt;&amp;</p>\n<h1>T</h1>\n", title("<b>&:80"))
	require.Equal(t, "<title>T</title>\n<main>\n<h1>T</h1>\n", title(strings.Repeat("a", longestHost+1)))
}
