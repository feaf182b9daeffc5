// SPDX-License-Identifier: Apache-2.0

// Package load tells whether an instance is busy: by how many requests it has admitted in a
// while, and by how many are under way. It knows of no policy: tallies, clients and networks
// are hashes.
package load

import (
	"hash/maphash"
	"time"
)

// A Source says whom a request is from, by hashes of [Meter.Hash].
type Source struct {
	// Tally is that of a tally that was bought; 0: none.
	Tally uint64

	// Client is that of the least that one client surely has, such as an address.
	Client uint64

	// Network is that of the largest that one holder may have. A client that is in none is
	// its own.
	Network uint64
}

// A Meter tells whether an instance is busy. Make it with [New].
//
// It becomes busy when more than PerSecond·(t + 10) requests were counted in some t seconds, or
// when AtOnce are under way. It is calm again when, in some t seconds since, no more than half of
// PerSecond·(t − 10) were counted, and fewer than half of AtOnce are under way. So it is busy
// for ten seconds at least, and does not flicker at the threshold. And whatever asks, all that
// is counted in calm spells is no more than PerSecond·(t + 10) in any t seconds, and one request
// for each time that it became busy: what a calm spell has to spare, the busy one after it
// makes up for.
//
// Nobody makes it busy alone. Of a client, and of a tally, a sixteenth of both thresholds counts
// at most, and half of that while it is busy. Of a network a quarter does; and one that
// reaches that is busy itself: for its own clients, and for ten seconds at least. Else who has
// a million addresses in one network would be asked for nothing, however much they send. So
// all that is admitted where instance and network are calm is bounded as above, but for what
// clients have beyond their sixteenth. It takes 17 clients of five networks to make an instance
// busy, 16 to hold it so, and four to make their network busy. Who shares a hash with another, one in
// 1024, shares its part.
//
// It is safe for concurrent use, and lock-free; the clock is an argument. A clock that is set
// back may make an instance that was busy busy for ten seconds, and keeps a busy one so
// for ten more; a clock that is set forward forgets what was admitted before.
type Meter struct {
	seed     maphash.Seed
	all      gauge
	networks [hashes]gauge
	clients  [hashes]gauge // and tallies
}

const (
	// hashes is how many clients, and how many networks, are told apart: 32 KiB in all,
	// whoever comes.
	hashes = 1024

	// clientPart of the threshold, one in so many, is what counts of a client at most.
	clientPart = 16
)

// New returns a meter that is calm.
func New() *Meter { return &Meter{seed: maphash.MakeSeed()} }

// Hash returns the hash of a name, which nobody outside can know or choose.
func (m *Meter) Hash(name []byte) uint64 { return maphash.Bytes(m.seed, name) }

// Busy reports whether the instance is busy.
func (m *Meter) Busy(now time.Time, at Threshold) bool {
	busy, _ := m.all.update(now, at.all(), false)
	return busy
}

// BusyFor reports whether the instance is busy, or is for the clients of a network.
func (m *Meter) BusyFor(now time.Time, at Threshold, network uint64) bool {
	if m.Busy(now, at) {
		return true
	}
	busy, _ := m.networks[network%hashes].update(now, at.network(), false)
	return busy
}

// Admit counts one request that was admitted.
func (m *Meter) Admit(now time.Time, at Threshold, from Source) {
	if at.PerSecond == 0 {
		return
	}
	cost := clientPart * at.all().each
	if m.all.busy() {
		cost *= 2
	}
	if !m.clients[from.Client%hashes].has(now, cost) || from.Tally != 0 && !m.clients[from.Tally%hashes].has(now, cost) {
		return
	}
	if _, counts := m.networks[from.Network%hashes].update(now, at.network(), true); counts {
		m.all.update(now, at.all(), true)
	}
}

// Begin counts a request that is under way from now on, until end is called. The next that asks
// finds out whether that is too many. An end that is nil has nothing to call.
func (m *Meter) Begin(at Threshold, from Source) (end func()) {
	client, tally, network := &m.clients[from.Client%hashes], &m.clients[from.Tally%hashes], &m.networks[from.Network%hashes]
	part := max(1, (at.AtOnce-1)/clientPart)
	if !client.begin(part) {
		return nil
	}
	if from.Tally != 0 && !tally.begin(part) {
		client.live.Add(-1)
		return nil
	}
	counts := network.live.Add(1) <= at.network().atOnce
	if counts {
		m.all.live.Add(1)
	}
	return func() { // what was counted, whatever the threshold is by then
		client.live.Add(-1)
		if from.Tally != 0 {
			tally.live.Add(-1)
		}
		network.live.Add(-1)
		if counts {
			m.all.live.Add(-1)
		}
	}
}
