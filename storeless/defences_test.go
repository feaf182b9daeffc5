package storeless_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// Tests of steps that no other test misses: each was written because a mutant
// survived.

func TestPeekChargesNothing(t *testing.T) {
	p, err := storeless.Compile("p", []storeless.Limit{{Quota: 3, Window: time.Minute}})
	require.NoError(t, err)
	m := storeless.NewMemory(64, 1)
	wide := []storeless.Network{{Key: 2, Policy: p}}
	for range 9 {
		v := m.Peek(opening, p, &storeless.Candidate{Key: 1, Networks: wide}, 3)
		require.True(t, v.Admitted)
		require.EqualValues(t, 3, v.Limits[0].Remaining)
	}
}

func TestExpiresWithTheLimitThatLooksFurthest(t *testing.T) {
	day := storeless.Limit{Name: "day", Quota: 9, Window: 24 * time.Hour}
	minute := storeless.Limit{Name: "minute", Quota: 9, Window: time.Minute}
	for _, limits := range [][]storeless.Limit{{day, minute}, {minute, day}} {
		p, err := storeless.Compile("p", limits)
		require.NoError(t, err)
		tally, _ := p.Step(opening, storeless.Tally{}, 1)
		require.Equal(t, opening.Add(48*time.Hour).Unix(), p.Expires(tally))
	}
}

func TestAMarkThatHasPassedIsNone(t *testing.T) {
	p, err := storeless.Compile("p", []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute}})
	require.NoError(t, err)
	tally, _ := p.Step(opening, storeless.Tally{}, 5)
	for _, after := range []time.Duration{5 * time.Second, time.Hour} {
		then := opening.Add(after)
		require.Zero(t, p.Merge(then, tally, storeless.Tally{}))
		require.False(t, p.Exceeds(then, tally, storeless.Tally{}))
		left, _ := p.Step(then, tally, 0)
		require.Zero(t, p.Expires(left))
	}
	require.NotZero(t, p.Merge(opening.Add(5*time.Second-time.Microsecond), tally, storeless.Tally{}))
}

// An instance whose clock is three seconds behind is shown a token of the next
// window: the window before weighs in full there, and no more than that.
func TestAWindowAheadIsAtItsBeginning(t *testing.T) {
	p, err := storeless.Compile("p", []storeless.Limit{{Quota: 100, Window: time.Minute}})
	require.NoError(t, err)
	before, _ := p.Step(opening.Add(59*time.Second), storeless.Tally{}, 60)
	ahead, _ := p.Step(opening.Add(time.Minute), before, 10)
	_, v := p.Step(opening.Add(57*time.Second), ahead, 0)
	require.EqualValues(t, 100-60-10, v.Limits[0].Remaining)
}

// TestRedeemsAtOnce sells to one buyer from several goroutines, each with families
// of its own, until nothing is for sale: a sale that is lost is one too many.
func TestRedeemsAtOnce(t *testing.T) {
	s := openShop(t, storeless.Tariff{Work: 1000, Crowd: 255, Memory: time.Hour}, 1<<16)
	buyers := s.address(0)
	for round := range 20 {
		now := opening.Add(time.Duration(round) * 4 * s.slot())
		var sold atomic.Int64
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for n := range 600 {
					if s.redeem(now, buyers, numbered(s.m, byte(g), round<<16+n), 8000).Granted {
						sold.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 4*255, sold.Load(), "four crowds, to the family")
	}
}

// TestNetworksAtOnce is the same for the hosts of one network.
func TestNetworksAtOnce(t *testing.T) {
	host, err := storeless.Compile("p", []storeless.Limit{{Quota: 1000, Window: time.Hour}})
	require.NoError(t, err)
	network, err := storeless.Compile("p", []storeless.Limit{{Quota: 800, Window: time.Hour}})
	require.NoError(t, err)
	m := storeless.NewMemory(1<<12, 1)
	for round := range 20 {
		wide := []storeless.Network{{Key: numbered(m, 'n', round), Policy: network}}
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				f := storeless.Candidate{Key: numbered(m, 'h', round<<8+g), Networks: wide}
				for range 400 {
					if _, v := m.Take(opening, host, &f, 1); v.Admitted {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 800, admitted.Load())
	}
}
