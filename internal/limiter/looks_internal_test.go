// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/storeless"
)

// With a million clients each line of cells that is looked at comes from main memory. A
// set has four; a tally's is nearly always the first, and a proof's.
func TestFoundAtFirstLook(t *testing.T) {
	const clients, line = 1 << 14, 64 / cells.Size
	p, err := Compile("p", []storeless.Limit{{Quota: 5, Window: time.Hour}})
	require.NoError(t, err)
	m := NewMemory(clients, 1)
	now := time.Unix(20_000*86_400, 0)
	lines := func(set []cells.Cell, first, tag uint32) int {
		for i := range uint32(cells.SetSize) {
			if set[(first+i)%cells.SetSize].Tag == tag {
				return int((first%line + i) / line)
			}
		}
		t.Fatal("it has no cell")
		return 0
	}
	var counts, proofs int
	each := func(do func(k Key)) {
		for n := range clients {
			do(Key(cells.Mix(uint64(n))))
		}
	}
	each(func(k Key) {
		f := Candidate{Key: k}
		if uint64(k)%16 == 0 { // what is paid for has fewer cells
			f.Proof = &Proof{Key: k, Expires: now.Add(time.Minute)}
		}
		_, v := m.Take(now, p, &f, 1)
		require.True(t, v.Admitted)
	})
	each(func(k Key) {
		at := m.counts.place(k)
		counts += lines(at.in((*m.counts.columns.Load())[0]), at.first, at.tag)
		if uint64(k)%16 == 0 {
			proofs += lines(m.paid.Place(uint64(k), cells.SpentID, 0))
		}
	})
	require.Less(t, counts, clients/10, "lines beyond the first, of %d tallies", clients)
	require.Less(t, proofs, clients/16/10, "lines beyond the first, of %d proofs", clients/16)
}
