package middleware

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
		got := slices.Collect(cookies(lines, name))
		want := cookiesSlow(lines, name)
		if len(text) > maxCookieBytes || strings.Count(text, name) > maxPieces {
			require.LessOrEqual(t, len(got), maxPieces)
			require.Subset(t, append(want, ""), append(got, ""))
			return
		}
		require.Equal(t, want, got)
	})
}

func TestCookieSeedsExist(t *testing.T) {
	seeds, err := os.ReadDir("testdata/fuzz/FuzzCookies")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(seeds), 8)
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
		{[]string{strings.Repeat(name+";", maxPieces-1) + name + "=v"}, 1},
		{[]string{strings.Repeat(name+";", maxPieces) + name + "=v"}, 0},
	} {
		require.Len(t, slices.Collect(cookies(test.lines, name)), test.found)
	}
}
