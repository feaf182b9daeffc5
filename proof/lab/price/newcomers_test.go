// SPDX-License-Identifier: Apache-2.0

package price

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/sale"
)

// A proof takes its work on average, twice that at most, and at least a hash a puzzle.
func TestHashes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sum int64
	const proofs = 10_000
	for range proofs {
		n := hashes(r, work)
		require.LessOrEqual(t, n, int64(2*work))
		require.GreaterOrEqual(t, n, int64(puzzles))
		sum += n
	}
	require.InEpsilon(t, work, sum/proofs, 0.01)
}

// As many come as were asked for, on every day, most of them in the evening, half of them
// on phones, in the order of time.
func TestArrivals(t *testing.T) {
	nowhere := func() []sale.Buyer { return nil }
	list := arrivals(random(5000, 0), days, 5000, nowhere)
	require.Len(t, list, days*5000)
	phones, night, evening, last := 0, 0, 0, int64(0)
	for _, n := range list {
		require.GreaterOrEqual(t, n.arrives, last)
		last = n.arrives
		if n.kind == phone {
			phones++
		}
		switch n.arrives % day / hour {
		case 3:
			night++
		case 20:
			evening++
		}
	}
	require.Less(t, last, days*day)
	require.InEpsilon(t, len(list)/2, phones, 0.05)
	require.InEpsilon(t, 8*night, evening, 0.2)
}

// A newcomer solves until its patience ends, and not after.
func TestPatience(t *testing.T) {
	for patience, in := range map[int64]int64{10 * second: 1, 1: 0} {
		stall := open(usual, few)
		s := &street{counters: []counter{stall}, random: random(1, 0), patience: patience}
		s.list = []newcomer{{arrives: day, buyers: stall.v4(0)}}
		s.run(2)
		require.Equal(t, fared{came: [2]int64{desktop: 1}, in: [2]int64{desktop: in}}, s.fared)
	}
}

func TestPercent(t *testing.T) {
	require.Equal(t, "0/67", fared{came: [2]int64{phone: 3}, in: [2]int64{phone: 2}}.String())
	require.Equal(t, "100/0", fared{came: [2]int64{desktop: 7}, in: [2]int64{desktop: 7}}.String())
}
