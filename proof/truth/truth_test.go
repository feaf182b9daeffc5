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

	"github.com/tallystick/tallystick/proof/truth"
)

// A definition that imported what it judges would share its mistakes.
func TestImportsNothingOfTheProduct(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	read := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			require.NotContains(t, path, ".", "%s: the standard library alone", name)
		}
		read++
	}
	require.Greater(t, read, 2)
}

// A request is what a timeline of brute force is made of.
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
// has moments, of which one falls out of sight with each moment that has passed.
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

// FuzzSeller compares with a count: the largest n of which 2^n is no more than (1 + 15/8·work/(crowds·Work))^crowds, while
// nothing leaks and no price is too high.
func FuzzSeller(f *testing.F) {
	f.Add(uint8(4), uint8(3), uint16(1000), uint16(5000))
	f.Add(uint8(1), uint8(1), uint16(15), uint16(8)) // a power of two
	f.Add(uint8(9), uint8(2), uint16(16), uint16(0))
	f.Fuzz(func(t *testing.T, crowd, instances uint8, work, hashes uint16) {
		s := truth.Seller{Work: int64(work) + 16, Crowd: int64(crowd%16) + 1}
		n := int64(instances%8) + 1
		all := big.NewInt(n * s.Crowd)
		unit := 8 * n * s.Crowd * s.Work
		right := new(big.Int).Exp(big.NewInt(unit+15*int64(hashes)), all, nil)
		left := new(big.Int).Exp(big.NewInt(unit), all, nil)
		want := int64(0)
		for left.Lsh(left, 1).Cmp(right) <= 0 {
			want++
		}
		want = min(want, int64(hashes)/s.Work)
		require.Equal(t, want, s.Tallies(n, 1, 3600, int64(hashes)).Int64(), "%+v %d", s, n)
		s.SalesPerHour = 1000
		require.Equal(t, min(want+500*n, int64(hashes)/s.Work), s.Tallies(n, 1, 1800, int64(hashes)).Int64(), "%+v %d", s, n)
	})
}
