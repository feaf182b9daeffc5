package storeless_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// A family that must be kept is refused by a full memory, and charged nothing in
// any level; one that is known is not strange to it.
func TestMustKeepInAFullMemory(t *testing.T) {
	s := openShop(t, plain(1), 1)
	s.fill(0)
	p, err := storeless.Compile("fill", []storeless.Limit{{Quota: 1 << 20, Window: time.Hour}})
	require.NoError(t, err)
	known := func(n int) storeless.Key { return numbered(s.m, 'f', n) }
	networks := []storeless.Network{{Key: known(1), Policy: p}, {Key: known(2), Policy: p}}
	left := func() (left [3]int64) {
		for n := range left {
			_, v := s.m.Take(opening, p, &storeless.Candidate{Key: known(n)}, 0)
			left[n] = v.Limits[0].Remaining
		}
		return left
	}
	before, full := left(), uint64(0)
	for name, f := range map[string]storeless.Candidate{
		"family":             {Key: 99},
		"family in networks": {Key: 99, Networks: networks},
		"network":            {Key: known(0), Networks: []storeless.Network{{Key: 99, Policy: p}, networks[1]}},
		"second network":     {Key: known(0), Networks: []storeless.Network{networks[0], {Key: 99, Policy: p}}},
	} {
		f.MustKeep = true
		shown, v := s.m.Take(opening, p, &f, 3)
		full++
		require.False(t, v.Admitted, name)
		require.True(t, v.Saturated, name)
		require.False(t, v.Spent || v.Impossible || v.Limits[0].Blocked, name)
		require.Zero(t, v.Wait, name)
		require.Equal(t, full, s.m.Saturations())
		require.Equal(t, before, left(), "%s: nothing is charged", name)
		_, want := p.Step(opening, storeless.Tally{}, 0)
		if f.Key == 99 && f.Networks == nil {
			require.Equal(t, want.Limits[0].Remaining, v.Limits[0].Remaining)
			require.Zero(t, shown[0].Cur)
		}
		_, v = s.m.Take(opening, p, &f, 0)
		require.True(t, v.Admitted, "%s: a peek keeps nothing", name)
	}
	_, v := s.m.Take(opening, p, &storeless.Candidate{Key: known(0), Networks: networks, MustKeep: true}, 1)
	require.True(t, v.Admitted && !v.Saturated, "all are known")
	_, v = s.m.Take(opening.Add(2*time.Hour), p, &storeless.Candidate{Key: 99, MustKeep: true}, 1)
	require.True(t, v.Admitted && !v.Saturated, "there is room again")
}

// A family that the memory has room for keeps its proof. One that it has no room
// for gets a single request for it, however many try.
func TestMustKeepSpendsAProofOnlyWithoutRoom(t *testing.T) {
	s := openShop(t, plain(1), 1)
	s.fill(1)
	p := perMinute(t, 5)
	f := storeless.Candidate{Key: 99, MustKeep: true, Proof: proofOf(7, time.Minute)}
	for range 5 {
		_, v := s.m.Take(opening, p, &f, 1)
		require.True(t, v.Admitted && !v.Saturated && !v.Spent)
	}
	other := storeless.Candidate{Key: 98, MustKeep: true, Proof: proofOf(8, time.Minute)}
	_, v := s.m.Take(opening, p, &other, 1)
	require.True(t, v.Admitted && v.Saturated, "the cell is taken, the proof is not spent")
	for range 100 {
		_, v = s.m.Take(opening, p, &other, 1)
		require.True(t, v.Spent && !v.Admitted && !v.Saturated)
	}
}

// Cells written under a clock that was wrong are free for whatever looks, but not
// for one limit and then, as soon as a longer one is known, for none.
func TestMustKeepBehindALongerLimit(t *testing.T) {
	short, err := storeless.Compile("p", []storeless.Limit{{Name: "a", Quota: 9, Window: time.Minute}})
	require.NoError(t, err)
	both, err := storeless.Compile("p", []storeless.Limit{{Name: "b", Quota: 9, Window: time.Minute}, {Name: "c", Quota: 9, Window: 24 * time.Hour}})
	require.NoError(t, err)
	m := storeless.NewMemory(1, 1)
	for n := range 16 {
		m.Take(opening.Add(36*time.Hour), short, &storeless.Candidate{Key: numbered(m, 'f', n)}, 1)
	}
	_, v := m.Take(opening, both, &storeless.Candidate{Key: 1, MustKeep: true}, 1)
	require.True(t, v.Saturated && !v.Admitted, "within three days and a day")
	_, v = m.Take(opening.Add(37*time.Hour), both, &storeless.Candidate{Key: 1, MustKeep: true}, 1)
	require.True(t, v.Admitted && !v.Saturated)
}

// The same where it is a network's bucket that takes longer to empty than the
// family's: cells two days ahead are a wrong clock's to the one alone.
func TestMustKeepBehindADeeperNetwork(t *testing.T) {
	bucket := func(burst int64) *storeless.Policy {
		p, err := storeless.Compile("p", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: 1, Window: 10 * time.Second, Burst: burst}})
		require.NoError(t, err)
		return p
	}
	m := storeless.NewMemory(1, 1)
	for n := range 16 {
		m.Take(opening.Add(48*time.Hour), bucket(1), &storeless.Candidate{Key: numbered(m, 'f', n)}, 1)
	}
	deep := []storeless.Network{{Key: 2, Policy: bucket(100_000)}}
	_, v := m.Take(opening, bucket(1), &storeless.Candidate{Key: 1, MustKeep: true, Networks: deep}, 1)
	require.True(t, v.Saturated && !v.Admitted)
	m = storeless.NewMemory(1, 1)
	for n := range 16 {
		m.Take(opening.Add(48*time.Hour), bucket(1), &storeless.Candidate{Key: numbered(m, 'f', n)}, 1)
	}
	_, v = m.Take(opening, bucket(1), &storeless.Candidate{Key: 1, MustKeep: true}, 1)
	require.True(t, v.Admitted && !v.Saturated, "without the network they are free")
}

// Where room is said to be, everything is kept; where it is not, something would
// have been lost: for any number of limits, networks and proofs in one set, and
// cells that expire at different times.
func TestRoomKeepsItsWord(t *testing.T) {
	windows := []time.Duration{time.Second, 7 * time.Second, time.Minute, 10 * time.Minute}
	kept, refused := 0, 0
	seeds(t, 40, func(t *testing.T, r *rand.Rand) {
		policies := make([]*storeless.Policy, 4)
		for i := range policies {
			limits := make([]storeless.Limit, 1+r.IntN(storeless.MaxLimits))
			for j := range limits {
				limits[j] = storeless.Limit{Name: fmt.Sprintf("l%d", j), Algorithm: storeless.Algorithm(r.IntN(3)), Quota: 1 << 20, Window: windows[r.IntN(len(windows))]}
			}
			var err error
			policies[i], err = storeless.Compile("p", limits)
			require.NoError(t, err)
		}
		m := storeless.NewMemory(1+r.IntN(16), 1)
		now := opening
		for n := range 1500 {
			now = now.Add(time.Duration(r.Int64N(int64(3 * time.Second))))
			if r.IntN(100) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(20*time.Minute)) - int64(time.Minute)))
			}
			p := policies[r.IntN(len(policies))]
			f := storeless.Candidate{Key: numbered(m, 'f', r.IntN(12)), MustKeep: r.IntN(4) > 0}
			for i := range r.IntN(3) {
				f.Networks = append(f.Networks, storeless.Network{Key: numbered(m, "54"[i], r.IntN(3)), Policy: p.Scale(1 + r.Int64N(9))})
			}
			if r.IntN(2) == 0 {
				f.Proof = &storeless.Proof{Key: numbered(m, 'p', n), Expires: now.Add(time.Duration(1+r.IntN(30)) * time.Second)}
			}
			_, v := m.Take(now, p, &f, 1)
			require.False(t, v.Spent)
			if !f.MustKeep {
				continue
			}
			if v.Wait > 0 { // a bucket that was spent by a clock that stepped back
				require.False(t, v.Admitted || v.Saturated)
				continue
			}
			if f.Proof != nil && v.Saturated {
				continue // the proof was spent, or there was no room for that either
			}
			require.NotEqual(t, v.Admitted, v.Saturated, "what is admitted is kept")
			if v.Admitted {
				kept++
				continue
			}
			refused++
			f.MustKeep = false
			_, v = m.Take(now, p, &f, 1)
			require.True(t, v.Saturated, "what is refused would not have been")
			require.False(t, v.Spent, "and its proof is not struck out")
		}
	})
	require.Greater(t, kept, 200)
	require.Greater(t, refused, 200)
}
