package middleware

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
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
		{[]string{strings.Repeat(name+";", 100) + name + "=v"}, 1},
		{[]string{"x=" + strings.Repeat(name, 100) + "; " + name + "=v"}, 1}, // any sibling domain may set that
		{[]string{strings.Repeat(name+"-a=v;", 100) + name + "=v"}, 1},       // policies whose names begin like this one
		{[]string{strings.Repeat(name+"=v;", maxPieces+1)}, maxPieces},
	} {
		require.Len(t, slices.Collect(cookies(test.lines, name)), test.found)
	}
}

// Tokens of one own family, shown side by side, are merged: a client cannot gain
// by showing an older one too, in whatever order.
func TestShownTokensOfAnOwnFamilyAreMerged(t *testing.T) {
	m, err := New(Config{
		Policy:  "contact",
		Limits:  []Limit{{Quota: 9, Window: time.Minute}},
		Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
	})
	require.NoError(t, err)
	e, now, own := m.engine.Load(), time.Unix(1_800_000_000, 0), token.Own{ID: [8]byte{1}, Expires: 1_800_003_600}
	low, _ := e.base.policy.Step(now, storeless.Tally{}, 2)
	high, _ := e.base.policy.Step(now, storeless.Tally{}, 7)
	for _, order := range [][]storeless.Tally{{low, high}, {high, low}} {
		var s shown
		for _, tally := range order {
			require.Zero(t, s.add(e, now, own, tally))
		}
		require.Len(t, s.own, 1)
		require.Equal(t, high, s.own[0].tally)
	}
}

// A token of an own family that lives longer than any that is sold was signed by
// whoever has stolen the key: he gets no more than the rest of a family's life.
func TestOwnTokensThatLiveTooLongAreNotBelieved(t *testing.T) {
	m, err := New(Config{
		Policy:    "contact",
		Limits:    []Limit{{Quota: 9, Window: time.Minute}},
		Secrets:   [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
		Challenge: &Challenge{},
	})
	require.NoError(t, err)
	e := m.engine.Load()
	q := inquiry{now: time.Unix(1_800_000_000, 0), id: Address(netip.MustParseAddr("203.0.113.1"))}
	life := token.OwnLife(e.base.policy)
	for _, test := range []struct {
		life time.Duration
		want bool
	}{{life, true}, {life + time.Minute, true}, {life + time.Minute + time.Second, false}, {100 * 365 * 24 * time.Hour, false}} {
		require.Equal(t, test.want, e.believes(&q, &token.Own{ID: [8]byte{1}, Expires: q.now.Add(test.life).Unix()}), test.life)
	}
}
