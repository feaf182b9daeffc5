// SPDX-License-Identifier: Apache-2.0

// Package load tells whether an instance is busy: by how many requests it has admitted in a
// while, and by how many are under way. It knows of no policy: tallies, clients and networks
// are hashes.
package load

import (
	"hash/maphash"
	"time"
)

// A Source names the sender of a request, by hashes of [Meter.Hash].
type Source struct {
	// Tally is the hash of a bought tally; 0: none.
	Tally uint64

	// Client is the hash of the smallest unit that one client has, such as an
	// address.
	Client uint64

	// Network is the hash of the largest unit that one holder may have. A client in no
	// network is its own.
	Network uint64
}

// A Meter tells whether an instance is busy. Make it with [New].
//
// It becomes busy when more than PerSecond·(t + 10) requests were counted in some t seconds, or
// when AtOnce are under way. It is calm again when, in some t seconds since, at most half of
// PerSecond·(t − 10) were counted, and fewer than half of AtOnce are under way. So it is busy for
// at least ten seconds, and does not flicker at the threshold. Calm spells count at most
// PerSecond·(t + 10) requests in any t seconds, and one more for each time that it became busy:
// the busy spell makes up for what the calm one had to spare.
//
// No client makes it busy alone. A client, or a tally, counts for at most a sixteenth of both
// thresholds, and half of that while it is busy. A network counts for at most a quarter. A network
// that reaches a quarter is busy for its own clients, for at least ten seconds: otherwise a million
// addresses in one network could send without limit. So all that is admitted while instance and
// network are calm is bounded as above, apart from what clients send beyond their sixteenth. It takes
// 17 clients from five networks to make an instance busy, 16 to keep it busy, and four to make their
// network busy. Two clients share a hash, and its part, with a chance of 1 in 1024.
//
// It is safe for concurrent use, and lock-free; the clock is an argument. A clock that is set
// back may make an instance busy again for ten seconds, or keep it busy for ten more. A clock
// that is set forward forgets what was admitted before.
type Meter struct {
	seed     maphash.Seed
	all      gauge
	networks [hashes]gauge
	clients  [hashes]gauge // and tallies
}

const (
	// hashes is how many clients, and how many networks, are told apart: 32 KiB in all.
	hashes = 1024

	// A client counts for at most 1/clientPart of the threshold.
	clientPart = 16
)

// New returns a meter that is calm.
func New() *Meter { return &Meter{seed: maphash.MakeSeed()} }

// Hash returns the hash of a name. No client can know or choose it.
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
