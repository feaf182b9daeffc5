// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	for _, s := range []string{"203.0.113.5", "203.0.113.5:", "[2001:db8::1]", "[2001:db8::1]:", " [fe80::1%eth0]:80", "::ffff:203.0.113.5", "[203.0.113.5]:80", "2001:db8::1:80"} {
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
		}
	})
}
