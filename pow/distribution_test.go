// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// tries is what a sequential search spends: n+1 hashes to arrive at n.
func tries(numbers []uint32) (sum uint64) {
	for _, n := range numbers {
		sum += uint64(n) + 1
	}
	return sum
}

// TestPriceOfHiddenNumbers: mean W, never above 2W. The nonces are fixed, so the
// sample is always the same one.
func TestPriceOfHiddenNumbers(t *testing.T) {
	kit.OnlyWhole(t, "takes many samples")
	const samples = 10_000
	is := newIssuer(t, secretA)
	for _, work := range []uint64{4096, DefaultWork, 3 << 20, MaxWork} {
		var sum, most uint64
		var p99 int
		for i := range samples {
			c := issueWith(is, 1_790_000_000, alice, work, nonce(fmt.Sprint("price", i)))
			n := tries(answersOf(t, is, c.Text))
			sum, most = sum+n, max(most, n)
			if float64(n) <= 1.47*float64(work) {
				p99++
			}
		}
		mean := float64(sum) / samples
		t.Logf("work %d: mean %.4f W, max %.3f W, %.2f %% within 1.47 W", work, mean/float64(work), float64(most)/float64(work), 100*float64(p99)/samples)
		require.InEpsilon(t, float64(work), mean, 0.01)
		require.LessOrEqual(t, most, 2*work)
		require.InDelta(t, 0.99, float64(p99)/samples, 0.005)
	}
}

// TestPriceOfSolving is the same of real solves, through the public door.
func TestPriceOfSolving(t *testing.T) {
	kit.OnlyWhole(t, "takes many samples")
	const samples, work = 2000, 2048
	is := newIssuer(t, secretA)
	var sum uint64
	for i := range samples {
		c := issueWith(is, 1_790_000_000, alice, work, nonce(fmt.Sprint("solving", i)))
		proof, err := Solve(t.Context(), c.Text, SolveOptions{Workers: 2})
		require.NoError(t, err)
		_, err = is.Verify(epoch, alice, proof)
		require.NoError(t, err)
		_, answers, _ := strings.Cut(proof, "~")
		var numbers []uint32
		for word := range strings.SplitSeq(answers, ".") {
			n, err := strconv.ParseUint(word, 10, 32)
			require.NoError(t, err)
			numbers = append(numbers, uint32(n))
		}
		n := tries(numbers)
		require.LessOrEqual(t, n, uint64(2*work))
		sum += n
	}
	mean := float64(sum) / samples
	t.Logf("mean %.4f W", mean/work)
	require.InEpsilon(t, float64(work), mean, 0.01)
}

// TestEachPuzzleIsUniform: no puzzle is easier than another, and zero is as
// likely as any number, so nobody gains by starting elsewhere.
func TestEachPuzzleIsUniform(t *testing.T) {
	kit.OnlyWhole(t, "takes many samples")
	const samples, cells = 16_000, 16
	is := newIssuer(t, secretA)
	var seen [puzzles][cells]int
	for i := range samples {
		c := issueWith(is, 1_790_000_000, alice, cells*puzzles/2, nonce(fmt.Sprint("uniform", i)))
		for p, n := range answersOf(t, is, c.Text) {
			seen[p][n]++
		}
	}
	for p := range seen {
		chi := 0.0
		for _, n := range seen[p] {
			d := float64(n) - samples/cells
			chi += d * d / (samples / cells)
		}
		require.Less(t, chi, 45.0, "puzzle %d: chi square with 15 degrees", p) // p = 0.0001
	}
}
