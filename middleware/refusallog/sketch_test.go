// SPDX-License-Identifier: Apache-2.0

package refusallog

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is printed holds for any stream, an attacker's too: no count is too high, and no client
// above 1 in 128 is missing.
func TestOffendersAreNeitherMissedNorAccusedOfTooMuch(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var o offenders
		really := map[string]uint64{}
		const total = 20_000
		spread := 200 * (1 + random.IntN(50))
		for range total {
			client := strconv.Itoa(min(random.IntN(spread), random.IntN(spread), random.IntN(spread)))
			if random.IntN(90) == 0 {
				client = "worst"
			}
			o.add(client, "")
			really[client]++
		}
		require.Len(t, o.heap, maxOffenders)
		require.Len(t, o.places, maxOffenders)
		sum := uint64(0)
		for i, p := range o.heap {
			require.Equal(t, i, p.at)
			require.Same(t, p, o.places[p.client])
			require.LessOrEqual(t, o.heap[(max(i, 1)-1)/2].count, p.count, "a heap")
			require.LessOrEqual(t, p.atLeast(), really[p.client])
			require.GreaterOrEqual(t, p.count, really[p.client])
			sum += p.count
		}
		require.EqualValues(t, total, sum)
		for client, n := range really {
			if n > total/maxOffenders {
				require.Contains(t, o.places, client)
			}
		}
		o.clear()
		require.Empty(t, o.most(5))
		o.add("a", "")
		require.EqualValues(t, 1, o.most(5)[0].count, "nothing is left of before")
	}
}

// The estimate is within 12 %, four standard errors, whatever the number.
func TestDistinctClients(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c distinct
	require.Zero(t, c.about())
	for n := 1; n <= 2_000_000; n++ {
		hash := random.Uint64()
		c.add(hash)
		c.add(hash)
		if n <= 4 || n == 100 || n == 3_000 || n%100_000 == 0 {
			require.InEpsilon(t, n, c.about(), 0.12, n)
		}
		if n <= 4 {
			require.EqualValues(t, n, c.about())
		}
	}
	require.EqualValues(t, 0, new(distinct).about())
	c.add(0)
	require.LessOrEqual(t, c[0], uint8(64-registerBits+1))
}
