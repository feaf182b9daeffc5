// SPDX-License-Identifier: Apache-2.0

package truth_test

import (
	"go/parser"
	"go/token"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/truth"
)

// A definition that imported what it judges would share its mistakes.
func TestImportsNothingOfTheProduct(t *testing.T) {
	files := kit.Must(filepath.Glob("*.go"))(t)
	read := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := kit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly))(t)
		for _, i := range f.Imports {
			path := kit.Must(strconv.Unquote(i.Path.Value))(t)
			require.NotContains(t, path, ".", "%s: the standard library alone", name)
		}
		read++
	}
	require.Positive(t, read)
}

// A request is an event on a timeline of brute force.
type request struct{ at, cost int64 }

// requests makes a short timeline of what a fuzzer has invented.
func requests(data []byte) (all []request) {
	at := int64(0)
	for i := 0; i+1 < len(data) && i < 40; i += 2 {
		at += int64(data[i] % 16)
		all = append(all, request{at, int64(data[i+1]%4) + 1})
	}
	return all
}

// FuzzWindow compares with a count of pieces: each request of the window before is cut into as many pieces as the window
// has moments. One piece falls out of sight with each moment that passes.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{1, 1, 5, 2, 3, 3, 9, 1, 4, 2, 7, 1}, uint8(5), uint8(12), true)
	f.Add([]byte{0, 3, 0, 3, 0, 3, 12, 1, 1, 1, 15, 3}, uint8(9), uint8(3), false)
	f.Fuzz(func(t *testing.T, data []byte, quota, length uint8, sliding bool) {
		w := truth.Window{Quota: int64(quota%20) + 1, Length: int64(length%20) + 1}
		var admitted []request
		for _, r := range requests(data) {
			start := r.at / w.Length * w.Length
			pieces, before, now := int64(0), int64(0), int64(0)
			for _, a := range admitted {
				switch {
				case a.at >= start:
					now += a.cost
					pieces += a.cost * w.Length
				case a.at >= start-w.Length && sliding:
					before += a.cost
					for moment := int64(0); moment < w.Length; moment++ {
						if moment >= r.at-start { // still within the last Length
							pieces += a.cost
						}
					}
				}
			}
			room := int64(-1)
			for cost := int64(0); pieces+cost*w.Length <= w.Quota*w.Length; cost++ {
				room = cost
			}
			fits := r.cost <= room
			require.Equal(t, fits, w.Fits(r.at-start, before, now, r.cost), "%+v %+v", w, r)
			if room >= 0 {
				require.Equal(t, room, w.Room(r.at-start, before, now), "%+v %+v", w, r)
			}
			if fits {
				admitted = append(admitted, r)
			}
		}
	})
}

// FuzzBucket compares with a bucket that leaks moment by moment: it holds what is owed, in moments.
func FuzzBucket(f *testing.F) {
	f.Add([]byte{1, 1, 5, 2, 3, 3, 9, 1, 4, 2, 7, 1}, uint8(5), uint8(12), uint8(3))
	f.Add([]byte{0, 3, 0, 3, 0, 3, 12, 1, 1, 1, 15, 3}, uint8(3), uint8(19), uint8(9))
	f.Fuzz(func(t *testing.T, data []byte, quota, window, burst uint8) {
		b := truth.Bucket{Quota: int64(quota%20) + 1, Window: int64(window%40) + 1, Burst: int64(burst%10) + 1}
		interval := int64(0)
		for interval*b.Quota < b.Window {
			interval++
		}
		require.Equal(t, interval, b.Interval())
		var drops []truth.Drop
		owed, then := int64(0), int64(0)
		for _, r := range requests(data) {
			for ; then < r.at; then++ {
				owed = max(0, owed-1)
			}
			fits := owed+r.cost*interval <= b.Burst*interval
			require.Equal(t, fits, b.Fits(owed, r.cost), "%+v %+v", b, r)
			require.Equal(t, fits, b.Admits(drops, r.at, r.cost), "%+v %+v", b, r)
			if fits {
				owed += r.cost * interval
				drops = append(drops, truth.Drop{At: r.at, Cost: r.cost, Interval: interval})
			}
		}
	})
}

// FuzzTariff compares with powers: k tallies are sold for some work if 2^(k − what has leaked) ≤ (1 + 15/8·hashes/(Crowd·Work))^Crowd,
// in which all is an integer where both sides are taken to the power of 3,600 and multiplied by the denominator.
func FuzzTariff(f *testing.F) {
	f.Add(uint8(16), uint8(2), uint8(4), uint16(900), uint16(3600))
	f.Add(uint8(1), uint8(1), uint8(0), uint16(8), uint16(0))     // 1 + 15 is a power of two
	f.Add(uint8(15), uint8(1), uint8(7), uint16(0), uint16(9000)) // nothing but what leaks
	f.Fuzz(func(t *testing.T, work, crowd, leak uint8, hashes, seconds uint16) {
		tariff := truth.Tariff{Work: int64(work%64) + 1, Crowd: int64(crowd%4) + 1, Leak: int64(leak % 8)}
		spent := int64(hashes)
		level := 8 * tariff.Crowd * tariff.Work
		power := func(base int64) *big.Int {
			return new(big.Int).Exp(big.NewInt(base), big.NewInt(3600*tariff.Crowd), nil)
		}
		below, above := power(level), power(level+15*spent)
		most := int64(0)
		for k := int64(1); ; k++ {
			left := new(big.Int).Set(below)
			if doubled := 3600*k - tariff.Leak*int64(seconds); doubled > 0 {
				left.Lsh(left, uint(doubled))
			}
			if left.Cmp(above) > 0 {
				break
			}
			most = k
		}
		require.Equal(t, most, tariff.Most(spent, int64(seconds)), "%+v for %d in %d s", tariff, spent, seconds)
	})
}

// The formulas, as the table of docs/bounds.md has them, by hand.
func TestInstances(t *testing.T) {
	i := truth.Instances{N: 3, C: 2}
	require.EqualValues(t, 25, i.Drops(5))
	require.EqualValues(t, 10, i.AtOnce(5, 2))
	require.EqualValues(t, 15, i.AtOnce(5, 9))
	require.EqualValues(t, 100, i.Buys(5, 4))
	require.EqualValues(t, 125, i.Adds(5, 4))
	require.EqualValues(t, 20, i.Proves(5, 4))
	require.EqualValues(t, 25, i.Proves(5, 9))
	require.EqualValues(t, 5, i.Waits(5))
	require.EqualValues(t, 5*4, i.Waits(20))
	require.EqualValues(t, 5+5, i.Outage(5))
	require.EqualValues(t, 60+5*20, i.Outage(60))
}
