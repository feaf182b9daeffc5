// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

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
