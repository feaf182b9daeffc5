package storeless

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever stripes a request names, and in whatever order, it locks each once
// and in ascending order: two requests never wait for each other. Were it
// otherwise, the parallel tests would hang now and then; this one fails.
func TestLocksAscend(t *testing.T) {
	const stripes = 4
	for n := range 1 << (2 * (2 + MaxWide)) { // all lists of four stripes
		var l locks
		var want []int
		for i := range 2 + MaxWide {
			stripe := n >> (2 * i) % stripes
			l.add(stripe)
			want = append(want, stripe)
			slices.Sort(want)
			want = slices.Compact(want)
			require.Equal(t, want, l.stripes[:l.n])
		}
	}
}
