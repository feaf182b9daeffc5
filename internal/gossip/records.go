// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/siphash"
)

// DefaultRecords is how many records a process keeps by default.
const DefaultRecords = 1 << 15

const (
	setSize  = 16
	most     = 1<<31 - 1 // of a count
	mostEver = 1 << 53   // that a process admits of a limit in a window, what came back too
	maxSkew  = 5_000_000 // µs, see limiter
)

// MostProcesses is how many other processes a record tells apart, dead ones too. Fewer join at a time: then
// one has a place to give up.
const MostProcesses = 64

// mostEnded is how many of those that have given up their places are known by name. A chunk has all of them.
const mostEnded = 1024

// Config describes a process.
type Config struct {
	Name    uint64   // of this start of the process: random, not 0
	Key     [16]byte // of the hash that names tallies: the same in all processes
	Records int      // 0: DefaultRecords
	Wake    func()   // is called, under a lock, when Next is earlier than it was; nil: nothing is
}

// Records hold what one process knows of the counts of all. They are safe for concurrent use.
type Records struct {
	hash siphash.Key
	wake func()

	mu     sync.Mutex
	name   uint64
	keys   []uint64 // of all, in sets; 0: free
	all    []record
	others []uint64 // the names of the others, by their place in the pairs of a record
	oldest int      // of those places
	ended  []uint64 // the names that had a place: their counts are in others, and in no pair

	peers   map[uint64]*peer
	live    int     // peers that are not late
	sizes   []size  // of the fleet, each larger than any since: the largest first
	seq     uint64  // of the last pair that was put into batches
	acked   uint64  // what all live peers have acknowledged
	log     []entry // of what was put into batches, in order
	dirty   []uint32
	haste   haste // of dirty, the most
	round   int64 // when the last batches were begun, µs
	wall    int64 // the time of windows, µs: the newest that is known, or what Present has said
	ready   bool
	leaving bool
	waiting map[uint64]*waiting
	stats   Stats
}

// A pair counts what one process has admitted of a tally in one window, and what it has refunded (rule 2). Both only rise, so they may
// be far above what counts: three calls of a billion model tokens, each settled to less, are above what 31 bits hold.
type pair struct{ plus, minus uint64 }

func (p pair) net() uint32 { return uint32(min(p.plus-p.minus, most)) }

// merge raises p to another, and returns by how much each of its counts has risen.
func (p *pair) merge(o pair) (plus, minus uint64) {
	was := *p
	p.plus, p.minus = max(p.plus, o.plus), max(p.minus, o.minus)
	return p.plus - was.plus, p.minus - was.minus
}

// A record is one limit of one tally, in one window.
type record struct {
	seconds, number uint32 // of the window; seconds 0: of something that ends at the Unix second number
	own             pair
	held            uint32 // of own: what requests hold whose outcome is not known
	pairs           []pair // of the others, by their places; of those beyond it is 0
	others          uint64 // the sum of their pairs
	prev            uint32 // the sum of all in the window before
	back, prevBack  uint32 // what others have given back since the tally was last looked at

	base  pair // own, as all live peers have acknowledged it
	told  told // last
	older told // not acknowledged by all when told was told; seq 0: none

	dirty bool // it is to be told

	sales *sales // nil: it is of no sale
}

// sales are a part of the record of a tally that this process has sold, and of each buyer's.
type sales struct {
	buyers     []uint64 // of a tally
	tally      uint64   // that a buyer has bought here last
	sold, last uint32   // to a buyer elsewhere since that was last asked, and the Unix second of the last
}

// pairOf returns the pair of the process of a place.
func (rec *record) pairOf(place int) *pair {
	for len(rec.pairs) <= place {
		rec.pairs = append(rec.pairs, pair{})
	}
	return &rec.pairs[place]
}

// A told pair was put into batches.
type told struct {
	seq uint64 // 0: it was not
	own pair
}

// An entry of the log is of the record at a place, unless that was told again, or its place is another's.
type entry struct {
	seq uint64
	at  uint32
}

// New returns the records of a process that has heard nothing.
func New(c Config) *Records {
	if c.Records == 0 {
		c.Records = DefaultRecords
	}
	sets := (c.Records + setSize - 1) / setSize
	r := &Records{
		hash: siphash.New(c.Key), name: c.Name, wake: c.Wake,
		keys: make([]uint64, sets*setSize), all: make([]record, sets*setSize),
		peers: map[uint64]*peer{}, waiting: map[uint64]*waiting{},
	}
	if r.wake == nil {
		r.wake = func() {}
	}
	return r
}

// Key returns the name of a tally of a policy among all processes (rule 1).
func (r *Records) Key(policy string, identity []byte) uint64 {
	var stack [96]byte
	b := append(append(append(stack[:0], policy...), 0), identity...)
	sum := r.hash.Sum(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// place returns where the set of a key begins.
func (r *Records) place(key uint64) int {
	hi, _ := bits.Mul64(key, uint64(len(r.keys)/setSize))
	return int(hi) * setSize
}

// find returns the place of a record, or -1.
func (r *Records) find(key uint64) int {
	at := r.place(key)
	for i, k := range r.keys[at : at+setSize] {
		if k == key {
			return at + i
		}
	}
	return -1
}

// sum returns what all have admitted and not given back, as far as is known here: s of rule 3.
func (rec *record) sum() uint32 { return uint32(min(uint64(rec.own.net())+rec.others, most)) }

// begun reports whether the window of a record has begun, by some clock that differs from this one by no more than is permitted.
func (rec *record) begun(now int64) bool {
	length := int64(rec.seconds) * 1_000_000
	return int64(rec.number)*length-now <= min(maxSkew, length/10)
}

// Present says what time it is. It is called now and then: requests may be late, so they do not tell that a clock was set back.
func (r *Records) Present(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wall = now.UnixMicro()
}

// asked returns the time of a request.
func (r *Records) asked(now time.Time) int64 {
	r.wall = max(r.wall, now.UnixMicro())
	return now.UnixMicro()
}

// over reports whether nothing of a record counts any more.
func (rec *record) over(now int64) bool {
	if rec.seconds == 0 {
		return int64(rec.number) < now/1_000_000
	}
	return now/1_000_000/int64(rec.seconds) > int64(rec.number)+1
}

// placeOf returns the place of another process in each record (rule 17).
func (r *Records) placeOf(name uint64) int {
	if slices.Contains(r.ended, name) { // it is back, and counts from its start
		r.forget()
	}
	if i := slices.Index(r.others, name); i >= 0 {
		return i
	}
	if len(r.others) < MostProcesses {
		r.others = append(r.others, name)
		return len(r.others) - 1
	}
	for r.peers[r.others[r.oldest]] != nil { // one that is gone gives up its place, in the order in which they came
		r.oldest = (r.oldest + 1) % MostProcesses
	}
	place := r.oldest
	r.oldest = (place + 1) % MostProcesses
	r.end(place)
	r.others[place] = name
	return place
}

// end has what the process of a place has counted stay without its name.
func (r *Records) end(place int) {
	for i := range r.all {
		if pairs := r.all[i].pairs; place < len(pairs) {
			pairs[place] = pair{}
		}
	}
	if len(r.ended) == mostEnded {
		r.forget()
	}
	if name := r.others[place]; !slices.Contains(r.ended, name) {
		r.ended = append(r.ended, name)
	}
}

// nameless returns what was counted by processes that have no place any more.
func (r *Records) nameless(at int) uint64 {
	n := r.all[at].others
	for _, p := range r.all[at].pairs {
		n -= uint64(p.net())
	}
	return n
}

// forget drops that, where it could be counted again by its names.
func (r *Records) forget() {
	for i := range r.all {
		if n := r.nameless(i); n > 0 {
			r.all[i].others -= n
			if !r.all[i].over(r.wall) {
				r.stats.Evicted++
			}
		}
	}
	r.ended = nil
}

// Stats are counts since the start, but for the first two.
type Stats struct {
	Records int    // in use
	Unacked uint32 // the most of a tally that a live peer has not acknowledged
	Evicted uint64 // records that were pushed out of a full set, or that forget has made smaller
	Waited  uint64 // requests
	Busy    uint64 // requests that have waited in vain
}

// A peer is one start of another process.
type peer struct {
	acked  uint64 // it has acknowledged what was told with this seq, and before
	next   uint64 // its next batch begins after this seq: later than acked, where the last one had no room for all
	flying uint64 // the last seq in the batch that is under way; 0: none is
	full   bool   // that had no room for all
	owes   int64  // since when it owes an answer, µs; 0: it owes none
	last   int64  // when it was sent a batch, µs
	late   bool
}

// A haste says when what is dirty is told.
type haste uint8

const (
	withOthers haste = iota // when another record is told
	soon                    // tellEach after the last batches
	atOnce                  // tellAtMost after them
)

// A size is a number of processes, and the Unix second in which one of them was gone.
type size struct {
	processes int
	until     int64
}

// Waiting requests are of one limit.
type waiting struct {
	requests int64
	freed    chan struct{}
}

// release wakes the requests that wait for one limit.
func (r *Records) release(key uint64) {
	if w := r.waiting[key]; w != nil {
		close(w.freed)
		delete(r.waiting, key)
	}
}
