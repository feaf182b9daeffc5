// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// However long the field, what is looked at has a bound.
func TestTheWalkIsBounded(t *testing.T) {
	for name, lines := range map[string][]string{
		"no comma":     {strings.Repeat("9", 900<<10)},
		"long entries": {strings.Repeat(strings.Repeat("9", 500)+",", 1000)},
		"full entries": {strings.Repeat(strings.Repeat("9", longestAddress)+",", 1000)},
		"commas":       {strings.Repeat(",", 900<<10)},
		"addresses":    {strings.Repeat("10.0.0.1,", 10_000)},
		"lines":        slices.Repeat([]string{""}, 10_000),
		"spaces":       {strings.Repeat(" ", 900<<10) + "203.0.113.5"},
	} {
		t.Run(name, func(t *testing.T) {
			hops, seen := 0, 0
			for entry, whole := range fromTheRight(lines, longestAddress) {
				require.LessOrEqual(t, len(entry), longestAddress+1)
				require.True(t, whole || len(entry) == longestAddress+1, "only a long entry is not whole")
				seen += len(entry)
				if hops++; !whole || hops > maxHops {
					break
				}
			}
			require.LessOrEqual(t, seen, (maxHops+1)*(longestAddress+1))
			field := AddressFieldNamed("x-forwarded-for")
			yielded := 0
			for range field.Entries(lines) {
				yielded++
			}
			require.LessOrEqual(t, yielded, maxHops)
			client, ok := field.Client(lines, func(a netip.Addr) bool { return a.IsPrivate() })
			require.False(t, ok)
			require.False(t, client.IsValid())
		})
	}
	t.Run("the longest entries are whole", func(t *testing.T) {
		full := strings.Repeat("9", longestAddress)
		for _, line := range []string{full, "x," + full, full + "," + full} {
			for entry, whole := range fromTheRight([]string{line}, longestAddress) {
				require.True(t, whole)
				require.Contains(t, []string{full, "x"}, entry)
			}
		}
		for _, whole := range fromTheRight([]string{"9" + full}, longestAddress) {
			require.False(t, whole)
		}
	})
}

func TestElementsHaveSoManyPairs(t *testing.T) {
	_, ok := parseForwardedElement("for=192.0.2.1" + strings.Repeat(";a=b", maxPairs-1))
	require.True(t, ok)
	_, ok = parseForwardedElement("for=192.0.2.1" + strings.Repeat(";a=b", maxPairs))
	require.False(t, ok)
}

// FuzzParseAddress: all that package netip reads is read as it does, and what is read beyond that is the same with a
// port, an empty port, or brackets less.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"203.0.113.5", "203.0.113.5:", "[2001:db8::1]", "[2001:db8::1]:", " [fe80::1%eth0]:80", "::ffff:203.0.113.5", "[203.0.113.5]:80", "2001:db8::1:80", "[2001:db8::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		node, ok := ParseAddress(s)
		s = strings.Trim(s, " \t") // at the end of a zone it would be a part of it
		if full, err := netip.ParseAddrPort(s); err == nil && len(s) <= longestNode && !strings.Contains(full.Addr().Zone(), "]") {
			require.True(t, ok)
			require.Equal(t, full, node)
			return
		}
		if addr, err := netip.ParseAddr(s); err == nil && len(s) <= longestNode {
			require.True(t, ok)
			require.Equal(t, netip.AddrPortFrom(addr, 0), node)
			return
		}
		if ok {
			again, ok := ParseAddress(node.String())
			require.True(t, ok)
			require.Equal(t, node, again)
			require.Equal(t, strings.HasPrefix(s, "["), strings.Contains(s, "]"))
		}
	})
}

// cookiesSlow cuts every line into pieces and looks at each.
func cookiesSlow(lines []string, name string) (values []string) {
	for _, line := range lines {
		for piece := range strings.SplitSeq(line, ";") {
			key, value, ok := strings.Cut(strings.Trim(piece, " \t"), "=")
			if ok && key == name {
				values = append(values, value)
			}
		}
	}
	return values
}

func FuzzCookies(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		const name = "__Host-t"
		lines := strings.Split(text, "\n") // two lines are two fields
		var got []string
		for suffix, value := range Cookies(lines, name) {
			require.Empty(t, suffix)
			got = append(got, value)
		}
		want := cookiesSlow(lines, name)
		if len(text) > maxCookieBytes || strings.Count(text, name) > maxGlances {
			require.LessOrEqual(t, len(got), maxGlances)
			require.Subset(t, append(want, ""), append(got, ""))
			return
		}
		require.Equal(t, want, got)
	})
}

func TestCookieSeedsExist(t *testing.T) {
	kit.Seeds(t, 8, "FuzzCookies")
}

func TestCookiesAreSearchedSoFarAndNoFurther(t *testing.T) {
	const name = "__Host-t"
	for _, test := range []struct {
		lines []string
		found int
	}{
		{[]string{strings.Repeat(" ", maxCookieBytes-len(name)-2) + name + "=v"}, 1},
		{[]string{strings.Repeat(" ", maxCookieBytes-len(name)-1) + name + "=v"}, 0},
		{[]string{strings.Repeat("a", maxCookieBytes-9), name + "=v"}, 0}, // together too long
		{[]string{strings.Repeat(name+";", 100) + name + "=v"}, 1},
		{[]string{"x=" + strings.Repeat(name, 100) + "; " + name + "=v"}, 1}, // any sibling domain may set that
		{[]string{strings.Repeat(name+"-a=v;", 100) + name + "=v"}, 1},       // policies whose names begin like this one
		{[]string{strings.Repeat(name+"=v;", maxGlances+1)}, maxGlances},
	} {
		found := 0
		for range Cookies(test.lines, name) {
			found++
		}
		require.Equal(t, test.found, found)
	}
}

// One look at the lines finds the cookies of all the names that begin alike.
func TestCookiesWithSuffixes(t *testing.T) {
	lines := []string{"__Host-t.wait=w; __Host-t.proof=p; __Host-t=a; __Host-t.other=x", "__Host-t=b; x__Host-t.wait=y; __Host-t.waiting=z"}
	collect := func(suffixes ...string) (all []string) {
		for suffix, value := range Cookies(lines, "__Host-t", suffixes...) {
			all = append(all, suffix+" "+value)
		}
		return all
	}
	numbered := []string{
		"__Host-t.proof.01abcdef=p; __Host-t.proof.=a; __Host-t.proof.01abcde=b; __Host-t.proof.01abcdef0=c; __Host-t.proof.01ABCDEF=d; __Host-t.proof.01abcdeg=e",
		"__Host-t.proof=f; __Host-t.proof.01abcdef.=g; __Host-t.proof.00000000=q=1; __Host-t.proof.0000000;=h; __Host-t.proof.00000000",
	}
	var all []string
	for suffix, value := range Cookies(numbered, "__Host-t", ".proof.########", ".wait") {
		all = append(all, suffix+" "+value)
	}
	require.Equal(t, []string{".proof.01abcdef p", ".proof.00000000 q=1"}, all, "eight digits, and no more")
	require.Equal(t, []string{".wait w", ".proof p", " a", " b"}, collect(".proof", ".wait"))
	require.Equal(t, []string{".proof p", " a", " b"}, collect(".proof"))
	require.Equal(t, []string{" a", " b"}, collect())
}

func TestAcceptIsReadSoFarAndNoFurther(t *testing.T) {
	require.True(t, PrefersHTML([]string{strings.Repeat("text/plain,", maxRanges-1) + "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat("text/plain,", maxRanges) + "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat(",", 900<<10) + "text/html"}))
	require.False(t, PrefersHTML(append(slices.Repeat([]string{"text/plain"}, maxRanges), "text/html")), "lines are one list")
	require.True(t, PrefersHTML([]string{strings.Repeat(";", maxRangeBytes-len("text/html")), "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat(";", maxRangeBytes-len("text/html")+1), "text/html"}))
}

func TestPrefersHTML(t *testing.T) {
	for accept, html := range map[string]bool{
		"":                 false,
		"*/*":              false,
		"text/html":        true,
		"TEXT/HTML":        true,
		"text/*":           true,
		"application/json": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,  // browsers
		"application/json, text/plain, */*":                                                     false, // axios
		"application/problem+json, text/html":                                                   false,
		"text/html;q=0.5, application/json;q=0.4":                                               true,
		"text/html;q=0.4, application/json;q=0.5":                                               false,
		"text/html;q=0.5, application/problem+json":                                             false,
		"text/html;q=0":                                false,
		"text/html;q=0, */*":                           false,
		"text/*;q=0.1, */*;q=0.2, text/html;q=0.3":     true,
		"application/*;q=0.9, text/html;q=0.8":         false,
		"*/*;q=0.1, application/json;q=0":              true,
		"text/html;level=1;q=0.7, application/*;q=0.6": true,
		"text/html ; Q=0.7 , application/json;q=0.6":   true,
		"text/html;q=nonsense":                         true,
		"text/html;q=2, application/json;q=0.9":        true,
		"text/html;q=0.0001, application/json;q=0.1":   true, // no qvalue: as if there were none
		"text/html;q=1.001, application/json":          false,
		"text/html;q=-1":                               true,
		"text/html;q":                                  true,
		"image/png":                                    false,
		";;,,;q=1,text/html":                           true,
		"text/html, application/json;q=0.999":          true,
		"text/html, application/json":                  false, // a tie
		"text/html;q=0.5, application/*;q=0.5":         false,
	} {
		require.Equal(t, html, PrefersHTML([]string{accept}), accept)
	}
}

func TestLanguage(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                    "en",
		"de":                                  "de",
		"DE":                                  "de",
		"de-CH, en;q=0.9":                     "de",
		"fr-CA;q=0.8, de;q=0.9":               "de",
		"fr ; q=0.8 , de;q=0.7":               "fr",
		"it, fr;q=0.5, en;q=0.3":              "fr",
		"it, ja":                              "en",
		"den, fra":                            "en",
		"*":                                   "en",
		"*, en;q=0.5":                         "de",
		"fr;q=0, *;q=0.1":                     "en",
		"en;q=0, *":                           "de",
		"fr;q=0":                              "en",
		"fr;q=2":                              "fr", // no weight at all
		"de;q=0.5, de-AT;q=0.9, fr;q=0.8":     "de",
		strings.Repeat("it,", 31) + "de":      "de",
		strings.Repeat("it,", 32) + "de":      "en",
		",,;;q=,-,de-":                        "de",
		"\xff, <script>, fr":                  "fr",
		"fr;q=0.001, en;q=0.0, de;q=0.000":    "fr",
		"en-US,en;q=0.9,de;q=0.8,fr;q=0.7":    "en",
		"de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7": "de",
	} {
		require.Equal(t, want, Language([]string{accept}, "en", "de", "fr"), accept)
	}
	require.Equal(t, "fr", Language([]string{"it", "fr"}, "en", "de", "fr"), "lines are one list")
	require.Equal(t, "en", Language(nil, "en", "de", "fr"))
}

func FuzzLanguage(f *testing.F) {
	for _, seed := range []string{"de-CH, en;q=0.9", "*;q=0.1,fr;q=0", ";;;,", "de;q=0.\n"} {
		f.Add(seed)
	}
	offered := []string{"en", "de", "fr"}
	f.Fuzz(func(t *testing.T, accept string) {
		require.True(t, slices.Contains(offered, Language([]string{accept}, offered...)))
	})
}

func TestTrim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		var s []byte
		for range r.IntN(8) {
			s = append(s, " \t\r\na\v\x00\u00a0"[r.IntN(8)])
		}
		require.Equal(t, strings.Trim(string(s), " \t"), Trim(string(s)), "%q", s)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "120 ": 2 * time.Minute, "0": time.Second, "999999999": 999999999 * time.Second,
		"9223372036": Forever, "9223372037": Forever, "18446744073709551615": Forever, "18446744073709551616": Forever, // never below 0
		"": 0, "-1": 0, "+1": 0, "1.5": 0, "soon": 0,
		"Sun, 22 Nov 2026 12:00:30 GMT":  30 * time.Second,
		"Sunday, 22-Nov-26 12:00:30 GMT": 30 * time.Second,
		"Sun, 22 Nov 2026 11:00:00 GMT":  time.Second,
		"Sun, 22 Nov 2026 12:00:30 CET":  0,
		"Sun, 22 Nov 2026 14:00:30 GMT":  2*time.Hour + 30*time.Second,
	} {
		h := http.Header{"Retry-After": {value}}
		require.Equal(t, want, RetryAfter(now, h), value)
		h.Set("Date", "today")
		require.Equal(t, want, RetryAfter(now, h), "%s, and a Date that is none", value)
	}
	h := http.Header{"Retry-After": {"Sun, 22 Nov 2026 14:00:30 GMT"}, "Date": {"Sun, 22 Nov 2026 14:00:10 GMT"}}
	require.Equal(t, 20*time.Second, RetryAfter(now, h), "by the server's clock")
}
