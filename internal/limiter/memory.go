// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
)

// DefaultClients is how many active clients a [Memory] is made for by default.
const DefaultClients = 1 << 16

// A Memory is a fixed-size table of the highest tallies seen: never a source of
// truth, only a floor. It bounds dropped, replayed, rolled back and
// forked tokens to one quota on each instance. Safe for concurrent use.
//
// It never grows with clients, and does no work in the background: a cell whose
// windows have passed is free for the next tally. Each limit has cells of its own, in
// sets of 16. A tally that finds its set full takes the cell of the smallest count
// there, and begins with what those had counted whose cells were taken before
// ([Verdict.Inherited]): it may be refused early, but no tally is ever counted too low. To
// forget a count instead would let a flood of strangers wash out a victim's, as in
// CVE-2024-21662.
//
// Where f cells of a limit are in use, beside c in all, a new count finds its set full
// with the probability that a Poisson variable of mean 16·f/c is 16 or more. There are
// six cells for each client: 2.6·10⁻⁸ for as many clients of IPv4 as the memory is made
// for, and 0.8 % for as many of IPv6 in networks of their own, which take three cells
// each. Cells carry a 32-bit tag; that a tally meets another's tag in its set, and is
// counted with it, has a chance below 16/2³².
//
// What was paid for with work has cells of its own, which cannot be filled for nothing: sales
// and spent proofs, and the counts of the tallies that were bought (see [Policy.Pass]).
type Memory struct {
	seed   maphash.Seed
	counts        // of all tallies that are not bought
	bought counts // of passes
	paid   cells.Table
	last   []atomic.Uint64 // that clients were sent, see TokenCache

	peers  *gossip.Records // nil: it counts alone
	policy string          // by which its tallies are named among peers

	inherited      atomic.Uint64 // newcomers that began with something
	inheritedParts atomic.Uint64 // with how much of their quota, in 1/partsOfQuota
}

const partsOfQuota = 1 << 20

// NewMemory returns a memory made for the given number of clients (0 means
// [DefaultClients]) of policies with the given number of limits. It takes 102 bytes for
// each client and limit, 20 for each client, and 8 KiB for each limit and for sales besides, 7.7 MiB by
// default for one limit. Passes take 51 bytes for each client and limit, and 8 KiB for each
// limit, as soon as there are any. If more limits are met than it was made for it grows by as much
// for each; see [Memory.Retain].
// It panics if a number is negative or limits is 0.
func NewMemory(clients, limits int) *Memory {
	if clients == 0 {
		clients = DefaultClients
	}
	if clients < 0 || limits < 1 {
		panic(fmt.Sprintf("limiter: no memory for %d clients of %d limits", clients, limits))
	}
	m := &Memory{seed: maphash.MakeSeed()}
	salt := maphash.Bytes(m.seed, []byte("providers"))
	m.counts.make(clients*cellsPerClient, limits, salt)
	m.bought.make(clients*boughtPerClient, 0, 0)
	m.paid.Make((clients+3)/4*paidCells, salt)
	m.last = make([]atomic.Uint64, clients)
	return m
}

// paidCells are for each sale that the memory is made for: the tally, and the ledgers of
// its buyers.
const paidCells = 3

// Join has m count together with peers, whose memories have joined under the same name. It is called before any other method.
func (m *Memory) Join(peers *gossip.Records, policy string) { m.peers, m.policy = peers, policy }

// Key returns the key of the tally with the given identity. It differs in
// every process and for every memory, but among peers.
func (m *Memory) Key(identity []byte) Key {
	if m.peers != nil {
		return Key(m.peers.Key(m.policy, identity))
	}
	return Key(maphash.Bytes(m.seed, identity))
}

// Retain says which policies count from now on. What was counted stays for the limits of
// theirs, whatever their order and their quotas; a limit that is not among them is
// forgotten, and begins at zero if it comes back. What passes have used is not forgotten
// while any of them is alive, whether or not there is a policy of passes. The memory has cells for as
// many clients as ever for each limit, so that its size follows their number.
func (m *Memory) Retain(now time.Time, policies ...*Policy) {
	m.counts.retain(policies, nil)
	m.bought.stripes.Lock()
	defer m.bought.stripes.Unlock()
	m.bought.retain(policies, func(col *column) bool { return col.alive(now.Unix()) })
}

// Paid returns the cells of what is paid for, in which package internal/sale sells tallies.
func (m *Memory) Paid() *cells.Table { return &m.paid }

// countsOf returns where the tallies of p are counted.
func (m *Memory) countsOf(p *Policy) *counts {
	if p.life > 0 {
		return &m.bought
	}
	return &m.counts
}

// Saturations returns how often a sale, or a request that came with a proof, was refused
// since the memory was made, because there was no room to remember what was paid.
func (m *Memory) Saturations() uint64 { return m.paid.Full.Load() }

// Inherited returns how many requests of newcomers to full sets began with a count that
// was not theirs, and the sum of the parts of their quotas that these counts were, each
// from 0 to 1. What has come to both since they were last asked is the mean.
func (m *Memory) Inherited() (newcomers uint64, quotas float64) {
	return m.inherited.Load(), float64(m.inheritedParts.Load()) / partsOfQuota
}

// Fill returns the share of the cells that are in use at now, from 0 to 1, of the limit
// that has the most: of a sample of some 4,096 for each limit, which takes about 0.1 ms.
func (m *Memory) Fill(now time.Time) float64 {
	return max(m.counts.fill(now.Unix()), m.bought.fill(now.Unix()))
}

// Size returns the number of bytes that the memory takes, now and for as long as the
// limits are the same.
func (m *Memory) Size() int { return m.counts.size() + m.bought.size() + m.paid.Size() + 8*len(m.last) }
