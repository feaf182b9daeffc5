package storeless_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// Families that cost nothing fill their own cells, and no others: a pass has all of its
// quota then, in whichever tier, and no second one.
func TestPassesInAFullMemory(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, storeless.Limit{Algorithm: a, Quota: 240, Window: day})
			pass, m := p.Pass(hour), storeless.NewMemory(4, 1)
			has := pass.Capacity()
			for i, pass := range []*storeless.Policy{pass, pass.Among(pass), pass.Scale(1), pass.Share(1)} {
				family := numbered(m, 'p', i)
				for n := range 2000 {
					take(m, p, midnight, stranger(m, n), 1)
					if n > 1000 && take(m, pass, midnight, family, 1).Admitted {
						has--
					}
				}
				require.Zero(t, has, "%d", i)
				has = pass.Capacity()
			}
		})
	}
}

// What belongs to a pass is free soon after its death, and no sooner: a day's limit keeps
// the cells of all others for two days.
func TestDeadPassesLeaveTheirCells(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, storeless.Limit{Algorithm: a, Quota: 240, Window: day, Burst: map[bool]int64{true: 240}[a == storeless.TokenBucket]})
			pass, life := p.Pass(hour), p.PassLife(hour)
			for _, late := range []time.Duration{0, second, 12 * hour, day - second} {
				m, now := storeless.NewMemory(1, 1), midnight.Add(late)
				for n := range 16 {
					require.True(t, take(m, pass, now, stranger(m, n), 1).Admitted)
				}
				require.InDelta(t, 1, m.Fill(now.Add(life)), 0)
				require.Zero(t, m.Fill(now.Add(life+minute)))
			}
		})
	}
}
