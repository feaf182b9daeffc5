// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
)

// Choose decides one request of the given cost, charging the tally with most
// left; at a tie the earlier one. Callers list own tallies before the shared
// one. That order, and taking the most rather than the first, is what keeps a
// planted or spent token from locking a client out.
//
// It returns the index of the tally that was charged (or that would have the
// shortest wait), its tally after the decision, and the verdict. m may be nil:
// then the tokens alone count, and nothing bounds a client that replays them.
// It panics if there is no tally, if there are more than 64, or if the cost is
// negative.
func (m *Memory) Choose(now time.Time, p *Policy, candidates []Candidate, cost int64) (int, Tally, Verdict) {
	if len(candidates) == 1 { // the common case, without a second look
		t, v := m.Take(now, p, &candidates[0], cost)
		return 0, t, v
	}
	if len(candidates) == 0 || len(candidates) > 64 {
		panic(fmt.Sprintf("limiter: cannot choose among %d tallies", len(candidates)))
	}
	var tried uint64 // a bit for each
	best, tally, verdict := -1, Tally{}, Verdict{}
	for range candidates {
		next, most := -1, int64(-1)
		for i := range candidates {
			if tried&(1<<i) != 0 {
				continue
			}
			_, v := m.Take(now, p, &candidates[i], 0)
			if left := v.Least(p.Len()); left > most {
				next, most = i, left
			}
		}
		tried |= 1 << next
		t, v := m.Take(now, p, &candidates[next], cost)
		if best < 0 || v.Admitted || v.Wait < verdict.Wait {
			best, tally, verdict = next, t, v
		}
		if v.Admitted {
			break
		}
	}
	return best, tally, verdict
}

// Take decides one request of the given cost for one tally: what it shows is
// merged with what the memory holds, and all limits, of the tally and of its
// networks, are checked and then charged, or none is, in one critical section.
// It returns the tally after the decision. A refusal marks nothing in
// memory. m may be nil; then networks are not counted and proofs not spent. It
// panics if cost is negative or there are more than [MaxNetworks] networks.
func (m *Memory) Take(now time.Time, p *Policy, f *Candidate, cost int64) (tally Tally, v Verdict) {
	m.TakeInto(now, p, f, cost, &tally, &v)
	return tally, v
}

// TakeInto is Take, and writes to a tally and a verdict that are zero.
func (m *Memory) TakeInto(now time.Time, p *Policy, f *Candidate, cost int64, tally *Tally, v *Verdict) {
	if m == nil {
		us := micros(now)
		*tally = f.Shown
		p.roll(us, tally)
		p.step(us, tally, f.price(cost), v)
		return
	}
	if cost < 0 {
		panic("limiter: negative cost")
	}
	us, price := micros(now), f.price(cost)
	*tally, v.Admitted = f.Shown, true
	p.roll(us, tally)

	if len(f.Networks) > 0 || f.Proof != nil || m.peers != nil {
		m.takeAll(us, p, f, cost, true, tally, v)
		return
	}
	c := m.countsOf(p)
	at, from := c.place(f.Key), f.newcomer(us, p)
	lock := &c.stripes[at.stripe]
	lock.Lock()
	defer lock.Unlock()

	var known tallyCells
	c.lookup(p, &at, &known)
	start := c.load(us, p, &at, from, &f.Shown, tally, &known)
	p.check(us, tally, price, f.Held, v, &v.Limits)
	charged := v.Admitted && cost > 0
	if charged {
		p.charge(us, tally, price, v)
		c.store(us, p, &at, from, tally, &known)
	}
	if start.cost > 0 {
		m.note(v, start, cost > 0)
	}
	p.status(us, tally, price, charged, v)
}

// Peek says what the limits would say to Take, and charges nothing. It does not ask
// whether a proof is spent.
func (m *Memory) Peek(now time.Time, p *Policy, f *Candidate, cost int64) (v Verdict) {
	if cost < 0 {
		panic("limiter: negative cost")
	}
	us, tally := micros(now), f.Shown
	p.roll(us, &tally)
	if m == nil {
		p.peek(us, &tally, f.price(cost), &v)
		return v
	}
	v.Admitted = true
	m.takeAll(us, p, f, cost, false, &tally, &v)
	return v
}

// A networkState is how one of a tally's networks stands.
type networkState struct {
	at     slot
	known  tallyCells
	tally  Tally
	limits statuses
}

// takeAll is Take with all that may go with a tally, or without charge. tally
// is rolled, and v says Admitted and no more.
func (m *Memory) takeAll(now int64, p *Policy, f *Candidate, cost int64, charge bool, tally *Tally, v *Verdict) {
	f.countNetworks()
	price := f.price(cost)
	var (
		states [MaxNetworks]networkState
		locked cells.Locks
	)
	c := m.countsOf(p)
	at := c.place(f.Key)
	locked.Add(at.stripe)
	for i := range f.Networks {
		states[i].at = c.place(f.Networks[i].Key)
		locked.Add(states[i].at.stripe)
	}
	locked.Hold(c.stripes)
	defer locked.Release(c.stripes)
	if f.Proof != nil {
		// Always after the others, so that no two requests wait for each other.
		lock := &m.paid.Stripes[m.paid.Of(uint64(f.Proof.Key))]
		lock.Lock()
		defer lock.Unlock()
	}

	var known tallyCells
	c.lookup(p, &at, &known)
	for i := range f.Networks {
		c.lookup(f.Networks[i].Policy, &states[i].at, &states[i].known)
	}
	from := f.newcomer(now, p)
	var told *hearings // 1,500 bytes: they are not cleared where nothing is heard
	if m.peers != nil {
		told = new(hearings)
		m.ask(now, p, f.Key, from, &known, told.of(0))
		f.Waits = m.waits(p, f, told.of(0), price)
		for i, w := range f.Networks {
			m.ask(now, w.Policy, w.Key, from.network(i), &states[i].known, told.of(1+i))
			if f.Waits.Key == 0 {
				f.Waits = m.waits(w.Policy, f, told.of(1+i), price)
			}
		}
	}
	start := c.load(now, p, &at, from, &f.Shown, tally, &known)
	m.raise(now, p, told.of(0), tally)
	p.check(now, tally, price, f.Held, v, &v.Limits)
	for i := range f.Networks {
		w, b := &f.Networks[i], &states[i]
		s := c.load(now, w.Policy, &b.at, from.network(i), &b.tally, &b.tally, &b.known)
		if s.part > start.part {
			start = s
		}
		m.raise(now, w.Policy, told.of(1+i), &b.tally)
		w.Policy.check(now, &b.tally, price, w.Held, v, &b.limits)
		if p.shadows {
			p.shadow(v, &b.limits)
		}
	}
	if !charge || !v.Admitted {
		f.Waits = gossip.Limit{}
	} else if f.Waits.Key != 0 {
		v.Admitted, v.Wait = false, time.Second
	}
	if charge && v.Admitted && cost > 0 && f.Proof != nil {
		m.spend(now, f, v)
	}
	charged := charge && v.Admitted && cost > 0
	if charged {
		p.charge(now, tally, price, v)
		c.store(now, p, &at, from, tally, &known)
		m.admitted(now, p, told.of(0), tally, price, v)
		for i := range f.Networks {
			w, b := &f.Networks[i], &states[i]
			w.Policy.charge(now, &b.tally, price, v)
			c.store(now, w.Policy, &b.at, from.network(i), &b.tally, &b.known)
			m.admitted(now, w.Policy, told.of(1+i), &b.tally, price, v)
		}
	}
	if start.cost > 0 {
		m.note(v, start, charge && cost > 0)
	}
	p.status(now, tally, price, charged, v)
	for i, w := range f.Networks {
		w.Policy.narrow(now, &states[i].tally, price, charged, v, &states[i].limits)
	}
}

// spend spends the proof that goes with a tally whose limits admit it, or refuses. Among peers it may have to wait.
func (m *Memory) spend(now int64, f *Candidate, v *Verdict) {
	proof, second := f.Proof, now/1_000_000
	if !proof.told {
		if c := m.paid.Find(uint64(proof.Key), cells.SpentID, 0); c != nil && int64(c.Expires) > second {
			v.Admitted, v.Spent = false, true
			return
		}
		ends := proof.Expires.Unix()
		c := m.paid.Claim(second, uint64(proof.Key), cells.SpentID, 0, m.paid.Horizon(ends-second+cells.FarFuture))
		if c == nil {
			v.Admitted, v.Saturated = false, true
			m.paid.Full.Add(1)
			return
		}
		c.Expires = uint32(ends)
	}
	if m.peers != nil {
		m.tellSpent(now, f, v)
	}
}

type start struct {
	cost int64
	part int64 // of the quota, in 1/partsOfQuota
}

// note tells of a newcomer that begins with something.
func (m *Memory) note(v *Verdict, s start, asks bool) {
	v.Inherited = s.cost
	if asks {
		m.inherited.Add(1)
		m.inheritedParts.Add(uint64(s.part))
	}
}

// load merges the memory's count of a tally into t, the shown one,
// rolled and cut down.
//
// A mark that is moved because of a wrong clock is stored, also by a refusal.
// Otherwise every look would move it again, and the debt would follow the clock
// for ever. This applies to a mark in the memory, and to a mark that is shown by
// a tally that the memory does not know. For a tally that it knows, the memory
// also knows what was admitted here, and a shown mark from a wrong clock adds
// nothing: obeying must be no worse than dropping the token.
//
// It returns what a tally begins with that the memory has no cell for. known are the
// cells that it had at a look.
func (c *counts) load(now int64, p *Policy, at *slot, from newcomer, shown, t *Tally, known *tallyCells) (begun start) {
	for i := range p.rules {
		r, col, own := &p.rules[i], known[i].col, known[i].cell
		reach := r.reach
		if from.ends > 0 {
			reach = max(reach, from.ends-now/1_000_000+cells.FarFuture)
		}
		cells.Furthest(&col.reach, reach)
		if own != nil && own.Tag != at.tag { // a newcomer in the same request has taken it
			own, known[i].cell = nil, nil
		}
		if own == nil {
			t[i] = r.roll(now, t[i])
			if s := c.begin(now, r, col, at, from); !r.blank(s) {
				t[i] = r.merge(t[i], s)
				cost := r.used(now, s)
				if part := partsOfQuota * min(cost, r.capacity) / r.capacity; cost > 0 && part >= begun.part && !r.limit.Shadow {
					begun = start{cost, part}
				}
			}
			if r.beyond(now, shown[i]) {
				r.store(now, c.claim(now, r, col, at, from), t[i], from.ends)
			}
			continue
		}
		s, moved := r.remembered(now, own)
		if moved {
			r.store(now, own, s, from.ends)
		}
		if r.beyond(now, shown[i]) {
			t[i] = s
			continue
		}
		t[i] = r.merge(t[i], s)
	}
	return begun
}

// store writes t to memory.
func (c *counts) store(now int64, p *Policy, at *slot, from newcomer, t *Tally, known *tallyCells) {
	for i := range p.rules {
		r, own := &p.rules[i], known[i].cell
		if own == nil && r.blank(t[i]) {
			continue // nothing was counted, and nothing is to be left behind
		}
		// A newcomer in the same request, a tally or another network, may have taken it.
		if own == nil || own.Tag != at.tag {
			own = c.claim(now, r, known[i].col, at, from)
		}
		r.store(now, own, t[i], from.ends)
	}
}
