// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// What is known by sight is what was noted: that text, of that client, and to the bit the tally that it says. So it is
// whatever becomes of the cells: charges, refunds, settled costs, a full memory, changed limits, clocks that step.
func TestSightIsMemory(t *testing.T) {
	all := []limiter.Limit{
		{Name: "a", Quota: 5, Window: minute},
		{Name: "b", Algorithm: limiter.FixedWindow, Quota: 9, Window: 5 * minute},
		{Name: "c", Algorithm: limiter.TokenBucket, Quota: 7, Window: minute, Burst: 9},
		{Name: "d", Algorithm: limiter.LeakyBucket, Quota: 30, Window: minute},
	}
	type noted struct {
		says limiter.Tally
		of   limiter.Key
	}
	seeds, known, unknown := 400, 0, 0
	if kit.Brief() {
		seeds = 40
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 31))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		p := compile(t, all[:1+rng.IntN(len(all))]...)
		m := limiter.NewMemory(1+rng.IntN(8), p.Len())
		s, now, sent := m.Sight(), midnight, map[string]noted{}
		clients := make([]limiter.Key, 1+rng.IntN(6))
		for i := range clients {
			clients[i] = m.Key([]byte{byte(i)})
		}
		for step := range 200 {
			k := clients[rng.IntN(len(clients))]
			f := &limiter.Candidate{Key: k}
			switch rng.IntN(12) {
			case 0:
				now = now.Add(time.Duration(rng.Int64N(int64(2 * minute))))
			case 1:
				now = now.Add(-time.Duration(rng.Int64N(int64(10 * second))))
			case 2:
				m.Record(now, p, f, rng.Int64N(40))
			case 3:
				m.Restore(now, now.Add(-time.Duration(rng.Int64N(int64(minute)))), p, f, 1+rng.Int64N(3))
			case 4:
				for n := range rng.IntN(60) {
					take(m, p, now, stranger(m, n), 1)
				}
			case 5:
				if rng.IntN(4) == 0 {
					m.Retain(now, compile(t, all[rng.IntN(len(all))]))
					m.Retain(now, p)
				}
			case 6:
				if rng.IntN(4) == 0 {
					s = m.Sight()
				}
			default:
				after, v := m.Take(now, p, f, rng.Int64N(3))
				if !v.Admitted {
					continue
				}
				text := fmt.Sprint("token ", step)
				s.Note(p, k, text, &after)
				for i := range after {
					if after[i].Cur == 0 && after[i].Prev == 0 && i < p.Len() && p.Limit(i).Burst == 0 {
						after[i] = limiter.State{} // a token says no window in which nothing is counted
					}
				}
				sent[text] = noted{after, k}
			}
			for text, n := range sent {
				for _, other := range clients {
					var says limiter.Tally
					if !s.Knows(p, other, text, &says) {
						unknown++
						continue
					}
					known++
					require.Equal(t, n, noted{says, other}, "seed %d, step %d: %s", seed, step, text)
				}
			}
		}
	}
	require.Greater(t, known, 1000)
	require.Greater(t, unknown, known)
}

// The last text of a client is known, again and again, and no other: an older one, another client's, or one that was
// noted by another sight of the same memory.
func TestTheLastIsKnownBySight(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Quota: 5, Window: minute},
		{Algorithm: limiter.FixedWindow, Quota: 5, Window: minute},
		{Algorithm: limiter.TokenBucket, Quota: 5, Window: minute},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			p, m := compile(t, l), limiter.NewMemory(1, 1) // all clients have one place
			s, k, other := m.Sight(), m.Key([]byte("a")), m.Key([]byte("b"))
			knows := func(k limiter.Key, text string) bool { return s.Knows(p, k, text, new(limiter.Tally)) }
			first, _ := m.Take(midnight, p, &limiter.Candidate{Key: k}, 1)
			s.Note(p, k, "first", &first)
			require.True(t, knows(k, "first"))
			require.True(t, knows(k, "first"))
			require.False(t, knows(k, "First"))
			require.False(t, m.Sight().Knows(p, k, "first", new(limiter.Tally)))

			same, _ := m.Take(midnight, p, &limiter.Candidate{Key: other}, 1)
			require.Equal(t, first, same)
			require.False(t, knows(other, "first"), "the same tally of another client")

			second, _ := m.Take(midnight, p, &limiter.Candidate{Key: k}, 1)
			require.False(t, knows(k, "first"), "it says less than the memory")
			s.Note(p, k, "second", &second)
			require.False(t, knows(k, "first"))
			require.True(t, knows(k, "second"))
			m.Restore(midnight, midnight, p, &limiter.Candidate{Key: k}, 1)
			require.False(t, knows(k, "second"), "it says more than the memory")
			s.Note(p, other, "second", &same)
			require.True(t, knows(other, "second"))
			require.False(t, knows(k, "second"))
		})
	}
}
