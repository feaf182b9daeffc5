// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/tallystick/tallystick/internal/cells"
)

// A TokenCache recognizes the text that a client was sent last, such as a token, and what it says, without reading it. For
// each client a memory keeps one hash, of the text and of the tally that it says, under a random key. The
// tally is not kept: it is in the client's cells. So a text is known only while they hold, to the bit, what it says:
// not after a further charge or a refund, not in a cell that was another's meanwhile, and not when its place went to
// another client, or another TokenCache. A text that is none is known with a chance of 2⁻⁶⁴.
type TokenCache struct {
	memory *Memory
	seed   maphash.Seed
}

// TokenCache returns one that knows nothing yet.
func (m *Memory) TokenCache() *TokenCache { return &TokenCache{m, maphash.MakeSeed()} }

// Note has text known, which says t.
func (s *TokenCache) Note(p *Policy, k Key, text string, t *Tally) {
	s.of(k).Store(p.seal(s.hash(k, text), t))
}

// Knows reports whether text is known, and writes to t what it says. What is there otherwise says nothing. Half of a
// seal is the text's alone: for most that are not known, no cell is looked at.
func (s *TokenCache) Knows(p *Policy, k Key, text string, t *Tally) bool {
	last, hash := s.of(k).Load(), s.hash(k, text)
	if last>>32 != hash>>32 {
		return false
	}
	s.memory.read(p, k, t)
	return p.seal(hash, t) == last
}

func (s *TokenCache) hash(k Key, text string) uint64 { return maphash.String(s.seed, text) ^ uint64(k) }

// seal puts a tally into the lower half of a text's hash.
func (p *Policy) seal(text uint64, t *Tally) uint64 {
	h := text
	for i := range p.rules {
		s := p.rules[i].told(t[i])
		h = cells.Mix(h ^ uint64(s.At))
		h = cells.Mix(h ^ uint64(s.Cur)<<32 ^ uint64(s.Prev))
	}
	return text ^ h>>32
}

// told returns the part of s that a token says: for a limit without a count it says nothing, not even the window.
func (r *rule) told(s State) State {
	if r.blank(s) {
		return State{}
	}
	return s
}

func (s *TokenCache) of(k Key) *atomic.Uint64 {
	return &s.memory.last[cells.Scale(uint64(k), len(s.memory.last))]
}

// read reads the cells of a shared tally as they are. A limit in which nothing was counted may have none.
func (m *Memory) read(p *Policy, k Key, t *Tally) {
	c := &m.counts
	at := c.place(k)
	lock := &c.stripes[at.stripe]
	lock.Lock()
	defer lock.Unlock()
	for i := range p.rules {
		r := &p.rules[i]
		t[i] = State{}
		if own := at.find(c.column(i, r.id)); own != nil {
			t[i] = r.told(r.load(0, own))
		}
	}
}
