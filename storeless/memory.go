package storeless

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// DefaultClients is how many active clients a [Memory] is made for by default.
const DefaultClients = 1 << 16

// A Memory is a fixed-size table of the highest tallies seen: never a source of
// truth, only a floor. It is what bounds dropped, replayed, rolled back and
// forked tokens to one quota on each instance. Safe for concurrent use.
//
// It never grows, never evicts what is live, and does no work in the background:
// a cell whose windows have passed is free for the next family. A family that
// finds no free cell is not remembered (see [Verdict.Saturated]): evicting
// another would let a crowd of strangers wash out a victim's count, as in
// CVE-2024-21662.
//
// A cell holds one limit's count of one family, so the limits may change while
// the memory stays. Cells sit in sets of 16, three cells for each family and
// limit the memory is made for. Where f counts live, remembered or not, beside c
// cells, a new count finds its set full with the probability that a Poisson
// variable of mean 16·f/c is 16 or more: 1.4·10⁻⁴ at the nominal load, 2.6·10⁻⁸
// at half of it (with eight limits, up to four times that). Cells carry a 32-bit
// tag; that a family meets another's tag in its set, and is counted with it, has
// a chance below 16/2³².
//
// What was paid for with work, sales and spent proofs, has cells of its own, a
// quarter as many: nobody can fill those for nothing, so that a crowd that fills
// the rest leaves a way in for clients that pay.
type Memory struct {
	seed maphash.Seed
	table
	paid table
	full atomic.Uint64
}

// A table is cells in sets in stripes.
type table struct {
	stripes []stripe
	sets    int // per stripe
	reach   atomic.Int64
}

// A stripe is the sets that one lock guards. All counts of a family lie in one
// stripe, so that check and charge of all its limits is one critical section
// of some tens of nanoseconds; neighbouring locks share no cache line.
type stripe struct {
	mu    sync.Mutex
	cells []cell
	_     [32]byte
}

const (
	setSize       = 16
	cellsPerCount = 3
	setsPerStripe = 64 // at least: among fewer, the limits of one family would crowd
	maxStripes    = 1024
)

// NewMemory returns a memory made for the given number of clients (0 means
// [DefaultClients]) of policies with the given number of limits. It takes
// 48 bytes for each client and limit and 12 for each client besides, 3.75 MiB by
// default for one limit.
// It panics if a number is negative or limits is 0.
func NewMemory(clients, limits int) *Memory {
	if clients == 0 {
		clients = DefaultClients
	}
	if clients < 0 || limits < 1 {
		panic(fmt.Sprintf("storeless: no memory for %d clients of %d limits", clients, limits))
	}
	m := &Memory{seed: maphash.MakeSeed()}
	m.table.make(clients * limits)
	m.paid.make((clients + 3) / 4)
	return m
}

// make makes the table for so many counts.
func (t *table) make(counts int) {
	sets := (counts*cellsPerCount + setSize - 1) / setSize
	stripes := max(1, min(maxStripes, sets/setsPerStripe))
	t.stripes = make([]stripe, stripes)
	t.sets = (sets + stripes - 1) / stripes
	cells := make([]cell, stripes*t.sets*setSize)
	for i := range t.stripes {
		t.stripes[i].cells = cells[i*t.sets*setSize:][:t.sets*setSize]
	}
}

// Key returns the key of the family with the given identity. It differs in
// every process and for every memory.
func (m *Memory) Key(identity []byte) Key { return Key(maphash.Bytes(m.seed, identity)) }

// Saturations returns how often there was no room since the memory was made: for
// the count of an admitted request, for a sale, or for a request that was refused
// because it had to be remembered.
func (m *Memory) Saturations() uint64 { return m.full.Load() }

// Size returns the number of bytes that the memory takes, now and for ever.
func (m *Memory) Size() int { return m.table.size() + m.paid.size() }

func (t *table) size() int { return len(t.stripes) * (64 + t.sets*setSize*16) }

// stripe returns the index of the stripe that holds a family.
func (t *table) stripe(k Key) int { return scale(uint64(k), len(t.stripes)) }

// find returns the cell of one limit of a family, or nil. The stripe is locked.
func (t *table) find(k Key, id uint32) *cell {
	set, first, tag := t.place(k, id)
	for i := range uint32(setSize) {
		// The search starts where the tag says, so that a family is mostly
		// found at the first look.
		if c := &set[(first+i)%setSize]; c.tag == tag && c.expires != 0 {
			return c
		}
	}
	return nil
}

// claim returns the cell of one limit of a family, taking a free one if need
// be, or nil if the set is full. The stripe is locked.
func (t *table) claim(now int64, k Key, id uint32, horizon int64) *cell {
	set, first, tag := t.place(k, id)
	var free *cell
	for i := range uint32(setSize) {
		c := &set[(first+i)%setSize]
		if c.tag == tag && c.expires != 0 {
			return c
		}
		if free == nil && c.free(now, horizon) {
			free = c
		}
	}
	if free != nil {
		*free = cell{tag: tag}
	}
	return free
}

// place returns the set of a family's limit, where to begin in it, and its tag.
// Key is uniform; the product spreads one family's limits over its stripe.
func (t *table) place(k Key, id uint32) (set []cell, first, tag uint32) {
	s := &t.stripes[t.stripe(k)]
	h := (uint64(k) ^ uint64(id)<<32 ^ uint64(id)) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	at := scale(h, t.sets) * setSize
	return s.cells[at : at+setSize : at+setSize], uint32(h>>28) % setSize, uint32(h)
}

// horizon returns how many seconds ahead of the clock the cells of any limit
// seen so far may end, that of reach included. One short limit must not take
// the cells of a long one for those of a wrong clock.
func (t *table) horizon(reach int64) int64 {
	for {
		seen := t.reach.Load()
		if reach <= seen {
			return seen
		}
		if t.reach.CompareAndSwap(seen, reach) {
			return reach
		}
	}
}

// scale maps a uniform h to [0, n) by its high bits.
func scale(h uint64, n int) int { return int((h >> 32) * uint64(n) >> 32) }

// locks are the stripes a request holds: the family's and its networks', each
// once, in ascending order, so that no two requests wait for each other.
type locks struct {
	n       int
	stripes [2 + MaxNetworks]int
}

func (l *locks) lock(t *table) {
	for _, s := range l.stripes[:l.n] {
		t.stripes[s].mu.Lock()
	}
}

func (l *locks) unlock(t *table) {
	for _, s := range l.stripes[:l.n] {
		t.stripes[s].mu.Unlock()
	}
}

func (l *locks) add(stripe int) {
	i := l.n
	for i > 0 && l.stripes[i-1] > stripe {
		i--
	}
	if i > 0 && l.stripes[i-1] == stripe {
		return
	}
	copy(l.stripes[i+1:l.n+1], l.stripes[i:l.n])
	l.stripes[i] = stripe
	l.n++
}

// Cells that hold no limit's count. The ids of limits are below 2²⁴.
const (
	salesID = 1<<24 + iota // a buyer's ledger
	heldID                 // a family that this instance has sold
	spentID                // a proof that has bought a request
)

// A cell is 16 bytes, a set four cache lines. A window state is kept as its two
// counts, its number following from expires; a GCRA state as its time mark below
// the bit length of the time its bucket takes to empty.
type cell struct {
	tag     uint32
	expires uint32 // Unix second from which on the cell is free; 0: never used
	value   uint64
}

// free reports whether nobody needs c any more. A cell far beyond any window's
// end was written under a clock that went wrong; it must not stay taken until
// that day comes.
func (c *cell) free(now, horizon int64) bool {
	return int64(c.expires) <= now || int64(c.expires) > now+horizon
}

// owes returns how far ahead of its clock, in µs, the writer of a GCRA cell can
// have put the mark, up to a factor of two. The writer's bucket counts, not the
// reader's: tiers share a family's cell, one of a small burst must not take the
// debt of a larger one for a fault of the clock, and a client of the small one
// must not be held to the debt of the large one after such a fault.
func (c *cell) owes() int64 { return 1 << (c.value >> markBits) }

// markBits are the bits of a cell's value that hold the time mark of a bucket.
const markBits = 56

// A vacancy counts the cells that one request would claim.
type vacancy struct {
	n    int
	sets [(1 + MaxNetworks) * MaxLimits]*cell // the first cell of the set of each
}

// room reports whether every limit of a family, and of its networks, has a live
// cell or could claim one, all of them together. The stripes are locked.
func (m *Memory) room(now int64, p *Policy, f *Candidate) bool {
	// The horizon that keep will see: a longer one makes fewer cells free.
	horizon := m.furthest(p)
	for i := range f.Networks {
		horizon = m.furthest(f.Networks[i].Policy)
	}
	var v vacancy
	fits := v.claim(now, m, p, f.Key, horizon)
	for i := range f.Networks {
		fits = fits && v.claim(now, m, f.Networks[i].Policy, f.Networks[i].Key, horizon)
	}
	return fits
}

// furthest returns the horizon, those of p's limits included.
func (m *Memory) furthest(p *Policy) (horizon int64) {
	for i := range p.rules {
		horizon = m.horizon(p.rules[i].reach)
	}
	return horizon
}

// claim adds what the limits of p would claim for k, and reports whether there
// is that much. A family's own cell that has expired is claimed like any other,
// and perhaps by another.
func (v *vacancy) claim(now int64, m *Memory, p *Policy, k Key, horizon int64) bool {
	for i := range p.rules {
		id := p.rules[i].id
		if c := m.find(k, id); c != nil && !c.free(now, horizon) {
			continue
		}
		set, _, _ := m.place(k, id)
		free := 0
		for j := range set {
			if set[j].free(now, horizon) {
				free++
			}
		}
		for _, other := range v.sets[:v.n] {
			if other == &set[0] {
				free--
			}
		}
		if free <= 0 {
			return false
		}
		v.sets[v.n] = &set[0]
		v.n++
	}
	return true
}
