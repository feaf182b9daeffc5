// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Against a plain list of the holders and their times: never more than there are, never fewer, and
// nothing is kept of a holder that is gone.
func TestSlotsAgainstAList(t *testing.T) {
	const hold = 30 * time.Second
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		most := 1 + rng.IntN(4)
		table, now := Table{hold: hold}, start
		type request struct {
			slot  *Slot
			began time.Time
			key   Key
		}
		var alive []request
		for range 400 {
			now = now.Add(time.Duration(rng.IntN(8)) * time.Second)
			if len(alive) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(alive))
				table.Leave(now, alive[i].slot)
				table.Leave(now, alive[i].slot) // changes nothing
				alive = append(alive[:i], alive[i+1:]...)
				continue
			}
			key, counted := Key(rng.IntN(3)), 0
			for _, r := range alive {
				if r.key == key && now.Sub(r.began) < hold {
					counted++
				}
			}
			slot := table.Try(now, key, most)
			require.Equal(t, counted < most, slot != nil, "seed %d", seed)
			if slot != nil {
				alive = append(alive, request{slot, now, key})
			}
		}
		for _, r := range alive {
			table.Leave(now, r.slot)
		}
		require.Empty(t, table.tallies, "seed %d", seed)
	}
}

// Connections that do nothing hold their slots for Hold, and no longer; that they are still
// there then takes nothing from others, nor does their end.
func TestIdleRequestsHoldNoLongerThanHold(t *testing.T) {
	table := Table{hold: 30 * time.Second}
	var idle []*Slot
	for range 5 {
		idle = append(idle, table.Try(start, 1, 5))
	}
	require.Nil(t, table.Try(start.Add(30*time.Second-1), 1, 5))
	later := start.Add(30 * time.Second)
	honest := table.Try(later, 1, 5)
	require.NotNil(t, honest)
	for _, s := range idle {
		table.Leave(later, s)
	}
	for range 4 {
		require.NotNil(t, table.Try(later, 1, 5))
	}
	require.Nil(t, table.Try(later, 1, 5), "five are held: the idle ones gave nothing back twice")
}

// When the last request of a tally ends, nothing is kept, though its slot has ended before.
func TestNothingIsKeptOfEndedSlots(t *testing.T) {
	table := Table{hold: 30 * time.Second}
	s := table.Try(start, 1, 1)
	table.Leave(start.Add(time.Minute), s)
	require.Empty(t, table.tallies)
	require.Nil(t, table.Try(start, 2, 0))
	s = table.Try(start, 1, 1)
	require.NotNil(t, table.Try(start.Add(time.Minute), 2, 1))
	require.Nil(t, table.Try(start.Add(time.Minute), 1, 0)) // a request for a slot ends what has lasted too long
	table.Leave(start.Add(time.Minute), s)
	require.Len(t, table.tallies, 1)
}

// Without Hold a slot counts until it is left.
func TestWithoutHold(t *testing.T) {
	table := Table{}
	s := table.Try(start, 1, 1)
	require.Nil(t, table.Try(start.Add(1000*time.Hour), 1, 1))
	table.Leave(start, s)
	require.NotNil(t, table.Try(start, 1, 1))
	require.Nil(t, table.Try(start, 2, 0), "none are permitted")
}

var errTooLong = errors.New("too long")

// A permit is given back once, by the first that does it.
func TestAPermitIsGivenBackOnce(t *testing.T) {
	freed := 0
	p := NewPermit(func() { freed++ })
	p.Done()
	p.Done()
	require.Equal(t, 1, freed)
	(*Permit)(nil).Done()
}

// What is released as well is released with the permit, and after it.
func TestAPermitReleasesAll(t *testing.T) {
	var freed []int
	p := NewPermit(func() { freed = append(freed, 1) })
	p.Also(func() { freed = append(freed, 2) })
	p.Also(func() { freed = append(freed, 3) })
	p.Done()
	p.Done()
	require.Equal(t, []int{1, 2, 3}, freed)
}

// A connection that was taken over keeps the permit, until it is closed or its time is over,
// though the context of the request has long ended.
func TestAConnectionKeepsItsPermit(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var freed atomic.Int64
			p := NewPermit(func() { freed.Add(1) })
			request, cancel := context.WithCancel(t.Context())
			ctx := p.EndAfter(request, 30*time.Second, errTooLong)
			ours, theirs := net.Pipe()
			conn := p.TakenOver(ours)
			p.Done()
			cancel()
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), context.Canceled)
			time.Sleep(29 * time.Second)
			require.Zero(t, freed.Load())
			if closed {
				require.NoError(t, conn.Close())
				require.EqualValues(t, 1, freed.Load())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.EqualValues(t, 1, freed.Load())
			_, err := theirs.Read(make([]byte, 1))
			require.Error(t, err, "it is closed")
		})
	}
}

func TestARequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermit(func() {})
		ctx := p.EndAfter(t.Context(), 30*time.Second, errTooLong)
		began := time.Now()
		<-ctx.Done()
		require.Equal(t, 30*time.Second, time.Since(began))
		require.ErrorIs(t, context.Cause(ctx), errTooLong)
		p.Done()
	})
}
