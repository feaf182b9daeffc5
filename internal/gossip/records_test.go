// SPDX-License-Identifier: Apache-2.0

package gossip_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/gossip"
)

var noon = time.Unix(epoch, 0)

func at(d time.Duration) time.Time { return noon.Add(d) }

// minute is a limit of a minute, in the window of noon.
func minute(key uint64) gossip.Limit {
	return gossip.Limit{Key: key << 32, Seconds: 60, Number: uint32(noon.Unix() / 60)}
}

// two returns processes 1 and 2 that have joined each other, and are ready.
func two() (a, b *gossip.Records) {
	a, b = gossip.New(gossip.Config{Name: 1, Records: 64}), gossip.New(gossip.Config{Name: 2, Records: 64})
	a.Joined(noon, 2)
	b.Joined(noon, 1)
	a.Ready()
	b.Ready()
	return a, b
}

// carry takes what a has to tell to b, and the answer back.
func carry(t *testing.T, now time.Time, a, b *gossip.Records, from, to uint64) {
	t.Helper()
	batch := a.Batch(now, to)
	require.NotNil(t, batch)
	ahead, err := b.Hear(now, from, batch)
	require.NoError(t, err)
	require.Zero(t, ahead)
	a.Answered(now, to)
}

func look(r *gossip.Records, l gossip.Limit) gossip.Heard { return r.Look(l, 100) }

// A pair is told when half of the slack is untold, and then acknowledged: nothing less is worth a batch.
func TestTells(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 1, 2)
	_, due := a.Next()
	require.False(t, due, "one request of a tally is not told")
	require.EqualValues(t, 1, look(a, minute(1)).Unacked)

	a.Add(noon, minute(1), 1, 2)
	next, due := a.Next()
	require.True(t, due)
	require.False(t, next.After(noon), "the first after a while at once")
	carry(t, noon, a, b, 1, 2)
	require.EqualValues(t, 2, look(b, minute(1)).Sum)
	require.Zero(t, look(a, minute(1)).Unacked)
	require.EqualValues(t, 2, look(a, minute(1)).Sum)

	a.Add(noon, minute(1), 2, 2)
	require.Nil(t, a.Batch(at(249*ms), 2), "each 250 ms")
	_, ok := a.Wait(minute(1), 100)
	require.True(t, ok)
	require.Nil(t, a.Batch(at(4*ms), 2))
	require.NotNil(t, a.Batch(at(5*ms), 2), "at once where a request waits, 5 ms apart")
	require.Nil(t, a.Batch(at(20*ms), 2), "one is under way")
	a.Lost(2)
	carry(t, at(20*ms), a, b, 1, 2)
	require.EqualValues(t, 4, look(b, minute(1)).Sum)

	a.Add(at(30*ms), minute(2), 3, 5)
	require.Nil(t, a.Batch(at(100*ms), 2))
	a.Add(at(100*ms), minute(2), 2, 5)
	require.NotNil(t, a.Batch(at(100*ms), 2), "at once where the next would wait")
	a.Answered(at(101*ms), 2)

	_, _ = a.Wait(minute(1), 100) // all is told, and another request is admitted before this one looks again
	a.Add(at(110*ms), minute(1), 1, 2)
	require.NotNil(t, a.Batch(at(110*ms), 2), "at once where a request waits, whatever came first")

	one := gossip.New(gossip.Config{Name: 3})
	require.EqualValues(t, 2, one.Look(minute(1), 100).Slack)
	require.EqualValues(t, 3, one.Look(minute(1), 101).Slack)
	require.EqualValues(t, 1, one.Look(minute(1), 1).Slack)
	require.EqualValues(t, 1, one.Look(gossip.Limit{Key: 1, Number: 1}, 1000).Slack, "of a bought tally")
	require.EqualValues(t, 1, a.Look(minute(1), 3).Slack, "L < 2N")
}

// What was told before in its window goes with whatever is told: less than half of a slack is worth the bytes then, though
// no batch.
func TestWhatWasToldGoesWithOthers(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 2, 2)
	carry(t, noon, a, b, 1, 2)
	a.Add(at(time.Second), minute(1), 1, 2)
	a.Add(at(time.Second), minute(2), 1, 2)
	_, due := a.Next()
	require.False(t, due)
	a.Add(at(time.Second), minute(3), 2, 2)
	carry(t, at(time.Second), a, b, 1, 2)
	require.EqualValues(t, 3, look(b, minute(1)).Sum)
	require.Zero(t, look(b, minute(2)).Sum, "it was not told before")
	require.EqualValues(t, 2, look(b, minute(3)).Sum)
}

// What a batch says is absolute: it may come twice, late, or out of order.
func TestBatchesAreAbsolute(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 2, 2)
	first := a.Batch(noon, 2)
	a.Lost(2)
	a.Add(noon, minute(1), 3, 2)
	second := a.Batch(at(sec), 2)
	for _, batch := range [][]byte{second, first, second, first} {
		_, err := b.Hear(at(sec), 1, batch)
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, look(b, minute(1)).Sum)
}

// An answer acknowledges the batch and nothing that came after it.
func TestAnswersAcknowledgeABatch(t *testing.T) {
	a, _ := two()
	a.Add(noon, minute(1), 2, 2)
	require.NotNil(t, a.Batch(noon, 2))
	a.Add(noon, minute(1), 2, 2)
	_, _ = a.Wait(minute(1), 1)
	a.Expire(at(60 * ms)) // begins the next, while one is under way
	a.Answered(at(61*ms), 2)
	require.EqualValues(t, 2, look(a, minute(1)).Unacked)
	require.NotNil(t, a.Batch(at(66*ms), 2))
	a.Answered(at(67*ms), 2)
	require.Zero(t, look(a, minute(1)).Unacked)
}

// What is given back is told at once, and taken from what others know and have merged.
func TestRefundsAreTold(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 10, 2)
	carry(t, noon, a, b, 1, 2)
	b.Add(noon, minute(1), 3, 2)
	require.EqualValues(t, 13, look(b, minute(1)).Sum)
	a.Refund(minute(1), 4)
	carry(t, at(5*ms), a, b, 1, 2)
	h := look(b, minute(1))
	require.EqualValues(t, 9, h.Sum)
	require.EqualValues(t, 4, h.Back)
	require.Zero(t, look(b, minute(1)).Back, "it is taken once")
	a.Refund(minute(1), 100)
	require.EqualValues(t, 0, look(a, minute(1)).Sum, "no more than was admitted")
}

// What a request holds until its outcome is known counts as admitted at the others, and beside what is
// counted here. It goes over the end of a window.
func TestHolds(t *testing.T) {
	a, b := two()
	a.Hold(noon, minute(1), 3, 1)
	carry(t, noon, a, b, 1, 2)
	require.EqualValues(t, 3, look(b, minute(1)).Sum)
	require.Zero(t, look(a, minute(1)).Sum, "its own limiter counts what it holds")
	require.Zero(t, look(a, minute(1)).Unacked)
	a.Refund(minute(1), 1)
	require.Zero(t, a.Settle(minute(1), 1, true))
	require.EqualValues(t, 1, look(a, minute(1)).Sum)
	require.Zero(t, a.Settle(minute(1), 1, false))
	require.EqualValues(t, 1, look(a, minute(1)).Sum)
	carry(t, at(5*ms), a, b, 1, 2)
	require.EqualValues(t, 2, look(b, minute(1)).Sum)

	next := minute(1)
	next.Number++
	h := look(a, next)
	require.EqualValues(t, 1, h.Prev)
	require.EqualValues(t, 1, h.Unacked)
	require.Zero(t, h.Sum)
	carry(t, at(time.Minute), a, b, 1, 2)
	require.EqualValues(t, 1, look(b, next).Sum)
	require.EqualValues(t, 2, a.Settle(next, 3, true))
	require.EqualValues(t, 1, look(a, next).Sum)
	require.EqualValues(t, 1, a.Settle(next, 1, true), "nothing is held")
	require.EqualValues(t, 1, a.Settle(minute(2), 1, true), "nothing is known")
}

// A window ends with all pairs, and its sum is the one before.
func TestWindowsEnd(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 10, 2)
	carry(t, noon, a, b, 1, 2)
	b.Add(noon, minute(1), 1, 2)
	next := minute(1)
	next.Number++
	h := look(b, next)
	require.EqualValues(t, 11, h.Prev)
	require.Zero(t, h.Sum)
	require.Zero(t, h.Unacked)
	next.Number++
	require.Zero(t, look(b, next).Prev)
}

// A window that begins later than clocks may differ is not believed; one within that has begun.
func TestClocksThatDiffer(t *testing.T) {
	a, b := two()
	next := minute(1)
	next.Number++
	b.Add(noon, minute(1), 7, 2)
	a.Add(at(55*sec), next, 5, 2)
	batch := a.Batch(at(55*sec), 2)
	ahead, err := b.Hear(at(54999*ms), 1, batch)
	require.NoError(t, err)
	require.Equal(t, 5001*ms, ahead)
	require.EqualValues(t, 7, look(b, minute(1)).Sum)
	ahead, err = b.Hear(at(55*sec), 1, batch)
	require.NoError(t, err)
	require.Zero(t, ahead)
	h := look(b, minute(1))
	require.Equal(t, next.Number, h.Number)
	require.EqualValues(t, 5, h.Sum)
	require.EqualValues(t, 7, h.Prev)
}

// A peer that owes an answer for 100 ms is waited for no more, until it has heard all that it has missed.
func TestLatePeers(t *testing.T) {
	a, b := two()
	a.Joined(noon, 3)
	require.Empty(t, a.Expire(at(time.Hour)), "it owes nothing")
	a.Add(noon, minute(1), 2, 2)
	carry(t, noon, a, b, 1, 2)
	require.NotNil(t, a.Batch(noon, 3))
	require.EqualValues(t, 2, look(a, minute(1)).Unacked)
	freed, ok := a.Wait(minute(1), 1)
	require.True(t, ok)
	require.Empty(t, a.Expire(at(99*ms)))
	require.Equal(t, []uint64{3}, a.Expire(at(100*ms)))
	require.Empty(t, a.Expire(at(200*ms)), "it is told of once")
	requireClosed(t, freed)
	require.Zero(t, look(a, minute(1)).Unacked)

	a.Add(noon, minute(1), 2, 2)
	carry(t, at(500*ms), a, b, 1, 2)
	back, _ := a.Answered(at(500*ms), 3)
	require.False(t, back, "it has not heard of the last two")
	a.Add(noon, minute(1), 2, 2)
	carry(t, at(1000*ms), a, b, 1, 2)
	require.Zero(t, look(a, minute(1)).Unacked)
	require.NotNil(t, a.Batch(at(600*ms), 3))
	back, _ = a.Answered(at(600*ms), 3)
	require.True(t, back)
	a.Gone(noon, 2)
	a.Gone(noon, 3)
	a.Add(noon, minute(1), 50, 2)
	require.Zero(t, look(a, minute(1)).Unacked, "there is no peer to wait for")
}

func requireClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	default:
		require.Fail(t, "not closed")
	}
}

// A newcomer takes over what its peers have acknowledged among themselves, and is told the rest. Until it
// has, no acknowledgement frees anything.
func TestNewcomers(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 10, 2)
	carry(t, noon, a, b, 1, 2)
	a.Add(noon, minute(2), 2, 2)
	require.NotNil(t, a.Batch(at(sec), 2))
	dead := gossip.New(gossip.Config{Name: 9, Records: 64})
	dead.Joined(noon, 2)
	dead.Ready()
	dead.Add(noon, minute(1), 5, 2)
	carry(t, noon, dead, b, 9, 2)

	c := gossip.New(gossip.Config{Name: 3, Records: 64})
	a.Joined(at(sec), 3)
	b.Joined(at(sec), 3)
	c.Joined(at(sec), 1)
	c.Joined(at(sec), 2)
	c.Add(at(sec), minute(1), 2, 2)
	carry(t, at(sec), c, a, 3, 1)
	carry(t, at(sec), c, b, 3, 2)
	require.EqualValues(t, 2, look(c, minute(1)).Unacked)
	chunk, next := b.Chunk(at(sec), 0)
	require.Zero(t, next)
	require.NoError(t, c.TakeOver(at(sec), chunk))
	require.EqualValues(t, 2, look(c, minute(1)).Unacked)
	c.Ready()
	require.EqualValues(t, 10+5+2, look(c, minute(1)).Sum)
	require.Zero(t, look(c, minute(1)).Unacked)
	carry(t, at(sec), a, c, 1, 3)
	require.EqualValues(t, 2, look(c, minute(2)).Sum, "what b has not acknowledged")
}

// A process that ends tells all of it.
func TestFarewell(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 1, 5)
	a.Farewell()
	require.False(t, a.Drained())
	carry(t, at(5*ms), a, b, 1, 2)
	require.True(t, a.Drained())
	require.EqualValues(t, 1, look(b, minute(1)).Sum)
	a.Add(noon, minute(1), 1, 5)
	require.False(t, a.Drained(), "one request was under way")

	a, b = two()
	a.Add(noon, minute(1), 2, 2)
	carry(t, noon, a, b, 1, 2)
	a.Add(noon, minute(2), 2, 2)
	next := minute(2)
	next.Number++
	look(a, next) // the window ends before it is told
	a.Farewell()
	require.Nil(t, a.Batch(at(5*ms), 2))
	require.True(t, a.Drained(), "nothing is untold")
}

// No more requests wait for a limit than it has room for.
func TestWait(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 2, 2)
	first, ok := a.Wait(minute(1), 2)
	require.True(t, ok)
	_, ok = a.Wait(minute(1), 2)
	require.True(t, ok)
	_, ok = a.Wait(minute(1), 2)
	require.False(t, ok)
	a.Left(minute(1), first)
	again, ok := a.Wait(minute(1), 2)
	require.True(t, ok)
	carry(t, noon, a, b, 1, 2)
	requireClosed(t, first)
	requireClosed(t, again)
	a.Left(minute(1), again) // of what has ended: nothing
}

// A window that begins frees what waits for an acknowledgement in the one before.
func TestANewWindowFrees(t *testing.T) {
	a, _ := two()
	a.Add(noon, minute(1), 2, 2)
	freed, ok := a.Wait(minute(1), 2)
	require.True(t, ok)
	next := minute(1)
	next.Number++
	require.Zero(t, a.Look(next, 100).Unacked)
	requireClosed(t, freed)

	for key := range uint64(16) { // all of a set
		a.Add(noon, minute(10+key), 3, 100)
	}
	freed, ok = a.Wait(minute(10), 2)
	require.True(t, ok)
	for key := range uint64(64) {
		a.Add(noon, minute(100+key), 4, 100)
	}
	require.Zero(t, look(a, minute(10)).Unacked, "it was evicted")
	requireClosed(t, freed)
}

// In a full set the smallest makes room.
func TestFullRecords(t *testing.T) {
	r := gossip.New(gossip.Config{Name: 1, Records: 16})
	r.Ready()
	for key := range uint64(16) {
		r.Add(noon, minute(key+1), 1+int64((key+3)%16), 2)
	}
	require.Equal(t, gossip.Stats{}, func() gossip.Stats { s := r.Stats(); s.Records = 0; return s }())
	r.Add(noon, minute(99), 1, 2)
	require.EqualValues(t, 1, r.Stats().Evicted)
	for key := range uint64(16) {
		want := 1 + uint32((key+3)%16)
		if want == 1 {
			want = 0
		}
		require.Equal(t, want, look(r, minute(key+1)).Sum, "%d", key)
	}
	later := minute(100)
	later.Number += 2
	r.Add(at(2*time.Minute), later, 1, 2)
	require.EqualValues(t, 1, r.Stats().Evicted, "what has passed makes room for nothing")

	r = gossip.New(gossip.Config{Name: 1, Records: 16})
	proof := gossip.Limit{Key: 98 << 32, Number: uint32(noon.Unix() + 60)}
	r.Add(noon, proof, 1, 1)
	for key := range uint64(40) {
		r.Add(noon, minute(200+key), 1, 2)
	}
	require.EqualValues(t, 1, look(r, proof).Sum, "what took work outlives single requests")
	seller := gossip.New(gossip.Config{Name: 2, Records: 16})
	seller.Joined(noon, 1)
	seller.Ready()
	seller.Sell(noon, gossip.Limit{Key: 97 << 32, Number: proof.Number}, []uint64{96 << 32})
	carry(t, noon, seller, r, 2, 1)
	for key := range uint64(40) {
		r.Add(noon, minute(200+key), 1, 2)
	}
	sold, _, _ := r.SoldTo(96 << 32)
	require.EqualValues(t, 1, sold, "so does a sale that the ledger has not heard of")
}

// More processes than a record has places for: the one that is gone for longest makes room, and what it has
// counted stays.
func TestManyProcesses(t *testing.T) {
	tells := func(r *gossip.Records, as, name uint64, admitted int64) {
		o := gossip.New(gossip.Config{Name: name, Records: 16})
		o.Ready()
		o.Joined(noon, as)
		o.Add(noon, minute(1), admitted, 2)
		carry(t, noon, o, r, name, as)
	}
	took := func(from *gossip.Records, into *gossip.Records) uint32 {
		chunk, next := from.Chunk(noon, 0)
		require.Zero(t, next)
		require.NoError(t, into.TakeOver(noon, chunk))
		return look(into, minute(1)).Sum
	}
	r := gossip.New(gossip.Config{Name: 1, Records: 16})
	r.Ready()
	r.Joined(noon, 2)
	few := gossip.New(gossip.Config{Name: 200, Records: 16})
	for name := uint64(2); name < 70; name++ {
		tells(r, 1, name, 10)
		if name < 60 {
			tells(few, 200, name, 10)
		}
	}
	require.EqualValues(t, 680, look(r, minute(1)).Sum)
	require.Zero(t, r.Stats().Evicted)
	tells(r, 1, 2, 11)
	require.EqualValues(t, 681, look(r, minute(1)).Sum, "one that has joined keeps its place")

	// One that starts takes all of it over, whomever it asks and in whatever order.
	starts := gossip.New(gossip.Config{Name: 201, Records: 16})
	require.EqualValues(t, 681, took(r, starts))
	require.EqualValues(t, 681, took(few, starts), "what has no name any more is not counted again by its name")
	require.Zero(t, starts.Stats().Evicted)
	starts = gossip.New(gossip.Config{Name: 202, Records: 16})
	require.EqualValues(t, 580, took(few, starts))
	require.EqualValues(t, 681, took(r, starts), "nor what has a name here, and none there")
	require.EqualValues(t, 681, took(starts, r))

	// One that is not gone, and so is counted by its name, makes what has no name worth nothing.
	lives := gossip.New(gossip.Config{Name: 203, Records: 16})
	lives.Joined(noon, 3)
	tells(lives, 203, 3, 10)
	require.LessOrEqual(t, took(r, lives), uint32(681))
	require.GreaterOrEqual(t, look(lives, minute(1)).Sum, uint32(641))
	tells(r, 1, 3, 12)
	require.LessOrEqual(t, look(r, minute(1)).Sum, uint32(683), "nor is one that is back counted twice")
	require.Positive(t, r.Stats().Evicted, "of what has no name it is not known how much is its own")

	joined := 1
	for name := uint64(100); joined < gossip.MostProcesses-1; name++ {
		r.Joined(noon, name)
		joined++
	}
	two := gossip.New(gossip.Config{Name: 2, Records: 16})
	two.Add(noon, minute(1), 13, 2)
	chunk, _ := two.Chunk(noon, 0)
	r.Gone(noon, 2)
	r.Joined(noon, 99)
	require.NoError(t, r.TakeOver(noon, chunk), "there is a place for one that has not joined")
}

// Many records go in several batches and chunks.
func TestManyRecords(t *testing.T) {
	a, b := gossip.New(gossip.Config{Name: 1}), gossip.New(gossip.Config{Name: 2})
	a.Joined(noon, 2)
	a.Ready()
	const n = 10_000
	key := func(i int) gossip.Limit {
		l := minute(1)
		l.Key = uint64(i+1) * 0x9e3779b97f4a7c15
		return l
	}
	for i := range n {
		a.Add(noon, key(i), 2, 2)
	}
	batches := 0
	for now := noon; !a.Drained(); now = now.Add(5 * ms) {
		carry(t, now, a, b, 1, 2)
		batches++
	}
	require.Greater(t, batches, 3)
	c, chunks := gossip.New(gossip.Config{Name: 3}), 0
	for from, more := uint32(0), true; more; more = from > 0 {
		chunk, next := b.Chunk(noon, from)
		require.LessOrEqual(t, len(chunk), gossip.MaxBatch)
		require.NoError(t, c.TakeOver(noon, chunk))
		from = next
		chunks++
	}
	require.Greater(t, chunks, 3)
	for i := range n {
		require.EqualValues(t, 2, look(b, key(i)).Sum)
		require.EqualValues(t, 2, look(c, key(i)).Sum)
	}
}

// A batch that has no room for all acknowledges nothing of a record that was told anew behind it: the peer
// has not heard that one at all.
func TestAFullBatchAcknowledgesWhatItHas(t *testing.T) {
	a, all := gossip.New(gossip.Config{Name: 1}), map[uint64]*gossip.Records{2: gossip.New(gossip.Config{Name: 2}), 3: gossip.New(gossip.Config{Name: 3})}
	for peer := range all {
		a.Joined(noon, peer)
	}
	a.Ready()
	key := func(i int) gossip.Limit {
		l := minute(1)
		l.Key = uint64(i+1) * 0x9e3779b97f4a7c15
		return l
	}
	tell := func(now time.Time, to uint64) {
		if batch := a.Batch(now, to); batch != nil {
			_, err := all[to].Hear(now, 1, batch)
			require.NoError(t, err)
			a.Answered(now, to)
		}
	}
	a.Add(noon, key(-2), 2, 2)
	require.NotNil(t, a.Batch(noon, 2), "is under way")
	tell(noon, 3)
	for i := range 10_000 {
		a.Add(noon, key(i), 2, 2)
	}
	_, _ = a.Wait(key(1), 1)
	tell(at(50*ms), 3)
	a.Add(at(50*ms), key(0), 2, 2)
	_, _ = a.Wait(key(0), 1)
	require.Empty(t, a.Expire(at(60*ms))) // it was the first, and is the last now
	a.Lost(2)
	for now := at(60 * ms); !a.Drained(); now = now.Add(5 * ms) {
		tell(now, 2)
		tell(now, 3)
		h := look(a, key(0))
		require.LessOrEqual(t, h.Sum-look(all[2], key(0)).Sum, h.Unacked, "after %v", now.Sub(noon))
	}
}

// What is malformed is an error, and nothing that a peer sends panics.
func FuzzHear(f *testing.F) {
	a, _ := two()
	a.Add(noon, minute(1), 5, 2)
	batch := a.Batch(noon, 2)
	chunk, _ := a.Chunk(noon, 0)
	f.Add(batch)
	f.Add(chunk)
	f.Add(append(batch, 1))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, b := two()
		_, _ = b.Hear(noon, 1, data)
		if err := b.TakeOver(noon, data); err == nil {
			again, _ := b.Chunk(noon, 0)
			require.NoError(t, b.TakeOver(noon, again))
		}
		h := look(b, minute(1))
		require.LessOrEqual(t, h.Sum, uint32(1<<31-1))
	})
}

// What is admitted while the only peer is late is told to it.
func TestALatePeerIsToldAll(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 2, 2)
	_ = a.Batch(noon, 2)
	require.Len(t, a.Expire(at(time.Second)), 1)
	a.Add(at(time.Second), minute(2), 5, 2)
	a.Lost(2)
	for now := at(time.Second); !a.Drained(); now = now.Add(50 * ms) {
		carry(t, now, a, b, 1, 2)
	}
	require.EqualValues(t, 2, look(b, minute(1)).Sum)
	require.EqualValues(t, 5, look(b, minute(2)).Sum)
}

// The only peer is back soon, however much is admitted all the time.
func TestALatePeerIsBackUnderLoad(t *testing.T) {
	a, b := two()
	a.Add(noon, minute(1), 2, 2)
	_ = a.Batch(noon, 2)
	require.Len(t, a.Expire(at(time.Second)), 1)
	a.Lost(2)
	for now := at(time.Second); now.Before(at(3 * time.Second)); now = now.Add(ms) {
		batch := a.Batch(now, 2)
		a.Add(now, minute(1+uint64(now.UnixMilli()%15)), 1, 100)
		if batch != nil {
			_, err := b.Hear(now, 1, batch)
			require.NoError(t, err)
			back, _ := a.Answered(now, 2)
			if back {
				for key := uint64(1); key <= 15; key++ {
					h := look(a, minute(key))
					require.LessOrEqual(t, h.Sum-look(b, minute(key)).Sum, h.Unacked, "what it has not heard is not acknowledged")
				}
				return
			}
		}
	}
	require.Fail(t, "it is late for ever")
}

// The slack goes by the most processes of a window: one that is gone may have admitted as much as the others
// did beside it.
func TestTheSlackOfAWindowDoesNotGrow(t *testing.T) {
	const quota = 5 // f is 1 of three processes, and 2 of two
	a, _ := two()
	a.Joined(noon, 3)
	slack := func(windows uint32) int64 {
		l := minute(1)
		l.Number += windows
		return a.Look(l, quota).Slack
	}
	require.EqualValues(t, 1, slack(0))
	a.Gone(at(10*time.Second), 3)
	require.EqualValues(t, 1, slack(0), "of the window in which one was gone")
	require.EqualValues(t, 2, slack(1))

	a.Joined(at(70*time.Second), 4)
	a.Joined(at(70*time.Second), 5)
	require.EqualValues(t, 1, slack(1))
	a.Gone(at(80*time.Second), 5)
	a.Gone(at(130*time.Second), 4)
	for windows, want := range []int64{1, 1, 1, 2} {
		require.Equal(t, want, slack(uint32(windows)), "%d windows later", windows)
	}
	day := gossip.Limit{Key: 9, Seconds: 86_400, Number: uint32(noon.Unix() / 86_400)}
	require.EqualValues(t, 1, a.Look(day, 7).Slack, "of the four that there were on this day")
	require.EqualValues(t, 2, a.Look(day, 8).Slack)
}

// A tally that is heard of while this process sells it counts once: as its own sale.
func TestASaleIsHeardOfWhileItIsMade(t *testing.T) {
	a, b := two()
	tally, buyer := gossip.Limit{Key: 7 << 32, Number: uint32(noon.Unix() + 600)}, uint64(8<<32)
	a.Sell(noon, tally, []uint64{buyer})
	carry(t, noon, a, b, 1, 2)
	b.Sell(noon, tally, []uint64{buyer})
	sold, _, _ := b.SoldTo(buyer)
	require.Zero(t, sold)
}

// A late peer is back when it answers, also where all that it has missed counts no more.
func TestALatePeerIsBackWhenItAnswers(t *testing.T) {
	a, b := two()
	a.Joined(noon, 3)
	a.Add(noon, minute(1), 2, 2)
	carry(t, noon, a, b, 1, 2)
	require.NotNil(t, a.Batch(noon, 3), "is under way, and lost")
	require.Equal(t, []uint64{3}, a.Expire(at(100*ms)))
	look(a, gossip.Limit{Key: minute(1).Key, Seconds: 60, Number: minute(1).Number + 1}) // what it was of has ended
	a.Lost(3)
	batch := a.Batch(at(time.Minute), 3)
	require.NotNil(t, batch)
	_, err := gossip.New(gossip.Config{Name: 3}).Hear(at(time.Minute), 1, batch)
	require.NoError(t, err)
	back, _ := a.Answered(at(time.Minute), 3)
	require.True(t, back)
}

// What has rolled while a batch was under way is acknowledged with what comes before it: else a process would
// look for it without end.
func TestAWindowEndsBeforeItIsTold(t *testing.T) {
	a, b := two()
	a.Joined(noon, 3)
	a.Add(noon, minute(1), 2, 2)
	require.NotNil(t, a.Batch(noon, 2), "is under way")
	a.Add(noon, minute(2), 2, 2)
	carry(t, at(500*time.Millisecond), a, b, 1, 3)
	next := minute(2)
	next.Number++
	look(a, next)
	a.Answered(at(510*time.Millisecond), 2)
	require.Nil(t, a.Batch(at(510*time.Millisecond), 2))
	require.True(t, a.Drained())
	_, due := a.Next()
	require.False(t, due)
}

// A limit of a bought tally that ends with it, since PassTime is another, has what was counted in its window; and the other way round.
func TestALimitEndsOrHasWindows(t *testing.T) {
	a, b := two()
	ends := gossip.Limit{Key: minute(1).Key, Number: uint32(noon.Unix()) + 3600, Bought: true}
	a.Add(noon, minute(1), 6, 2)
	carry(t, noon, a, b, 1, 2)
	require.EqualValues(t, 6, look(b, ends).Sum)
	b.Add(noon, ends, 1, 1)
	carry(t, noon, b, a, 2, 1)
	require.EqualValues(t, 7, look(a, ends).Sum)
	require.EqualValues(t, 7, look(a, minute(1)).Sum)
	l := minute(1)
	require.EqualValues(t, 2, look(a, l).Slack)
	l.Bought = true
	require.EqualValues(t, 1, look(a, l).Slack, "whatever its window is")
}

// What is admitted and comes back has both counts of a pair rise without end, and they do not reach theirs.
func TestWhatComesBackFillsNoPair(t *testing.T) {
	a, b := two()
	for range 5 {
		a.Add(noon, minute(1), 1<<30, 1<<30)
		a.Refund(minute(1), 1<<30)
	}
	a.Add(noon, minute(1), 3, 2)
	carry(t, noon, a, b, 1, 2)
	require.EqualValues(t, 3, look(a, minute(1)).Sum)
	require.EqualValues(t, 3, look(b, minute(1)).Sum)
}
