package storeless

import (
	"fmt"
	"time"
)

// Choose decides one request of the given cost, charging the family with most
// left; at a tie the earlier one. Callers list own families before the shared
// one. That order, and taking the most rather than the first, is what keeps a
// planted or spent token from locking anybody out.
//
// It returns the index of the family that was charged (or that would have the
// shortest wait), its tally after the decision, and the verdict. m may be nil:
// then the tokens alone count, and nothing bounds a client that replays them.
// It panics if there is no family, if there are more than 64, or if the cost is
// negative.
func (m *Memory) Choose(now time.Time, p *Policy, families []Candidate, cost int64) (int, Tally, Verdict) {
	if len(families) == 1 { // the common case, without a second look
		t, v := m.Take(now, p, &families[0], cost)
		return 0, t, v
	}
	if len(families) == 0 || len(families) > 64 {
		panic(fmt.Sprintf("storeless: cannot choose among %d families", len(families)))
	}
	var tried uint64 // a bit for each
	best, tally, verdict := -1, Tally{}, Verdict{}
	for range families {
		next, most := -1, int64(-1)
		for i := range families {
			if tried&(1<<i) != 0 {
				continue
			}
			_, v := m.Take(now, p, &families[i], 0)
			if left := v.Least(p.Len()); left > most {
				next, most = i, left
			}
		}
		tried |= 1 << next
		t, v := m.Take(now, p, &families[next], cost)
		if best < 0 || v.Admitted || v.Wait < verdict.Wait {
			best, tally, verdict = next, t, v
		}
		if v.Admitted {
			break
		}
	}
	return best, tally, verdict
}

// Take decides one request of the given cost for one family: what it shows is
// merged with what the memory holds, and all limits, of the family and of its
// networks, are checked and then charged, or none is, in one critical section.
// It returns the family's tally after the decision. A refusal marks nothing in
// memory. m may be nil; then networks are not counted and proofs not spent. It
// panics if cost is negative or there are more than [MaxNetworks] networks.
func (m *Memory) Take(now time.Time, p *Policy, f *Candidate, cost int64) (Tally, Verdict) {
	if m == nil {
		return p.Step(now, f.Shown, cost)
	}
	if cost < 0 {
		panic("storeless: negative cost")
	}
	us, tally := micros(now), f.Shown
	p.roll(us, &tally)

	if len(f.Networks) > 0 || f.MustKeep || f.Proof != nil {
		return m.takeAll(us, p, f, tally, cost, true)
	}
	lock := &m.stripes[m.stripe(f.Key)].mu
	lock.Lock()
	defer lock.Unlock()

	m.recall(us, p, f.Key, &f.Shown, &tally)
	v := p.check(us, &tally, cost)
	if v.Admitted && cost > 0 {
		p.charge(us, &tally, cost)
		if !m.keep(us, p, f.Key, &tally) {
			v.Saturated = true
			m.full.Add(1)
		}
	}
	p.status(us, &tally, cost, &v)
	return tally, v
}

// Peek says what the limits would say to Take, and charges nothing. Of a family with
// MustKeep it asks whether there is room, whatever the cost: it is Saturated, and not
// admitted, if there is none. It does not ask whether a proof is spent.
func (m *Memory) Peek(now time.Time, p *Policy, f *Candidate, cost int64) Verdict {
	if m == nil {
		return p.Peek(now, f.Shown, cost)
	}
	if cost < 0 {
		panic("storeless: negative cost")
	}
	us, tally := micros(now), f.Shown
	p.roll(us, &tally)
	_, v := m.takeAll(us, p, f, tally, cost, false)
	return v
}

// takeAll is Take with all that may go with a family, or without charge. tally
// is rolled.
func (m *Memory) takeAll(now int64, p *Policy, f *Candidate, tally Tally, cost int64, charge bool) (Tally, Verdict) {
	var locked locks
	locked.add(m.stripe(f.Key))
	for i := range f.Networks {
		locked.add(m.stripe(f.Networks[i].Key))
	}
	locked.lock(&m.table)
	defer locked.unlock(&m.table)
	if f.Proof != nil {
		// Always after the others, so that no two requests wait for each other.
		lock := &m.paid.stripes[m.paid.stripe(f.Proof.Key)].mu
		lock.Lock()
		defer lock.Unlock()
	}

	m.recall(now, p, f.Key, &f.Shown, &tally)
	v := p.check(now, &tally, cost)
	var (
		tallies  [MaxNetworks]Tally
		verdicts [MaxNetworks]Verdict
	)
	for i, w := range f.Networks {
		m.recall(now, w.Policy, w.Key, &tallies[i], &tallies[i])
		verdicts[i] = w.Policy.check(now, &tallies[i], cost)
		v.restrict(&verdicts[i])
	}
	switch {
	case charge && v.Admitted && cost > 0:
		m.admit(now, p, f, &v)
	case !charge && v.Admitted && f.MustKeep && !m.room(now/1_000_000, p, f):
		v.Admitted, v.Saturated = false, true
	}
	if charge && v.Admitted && cost > 0 {
		p.charge(now, &tally, cost)
		kept := m.keep(now, p, f.Key, &tally)
		for i, w := range f.Networks {
			w.Policy.charge(now, &tallies[i], cost)
			kept = m.keep(now, w.Policy, w.Key, &tallies[i]) && kept
		}
		v.Saturated = !kept
	}
	if charge && v.Saturated {
		m.full.Add(1)
	}
	p.status(now, &tally, cost, &v)
	for i, w := range f.Networks {
		w.Policy.status(now, &tallies[i], cost, &verdicts[i])
		v.narrow(&verdicts[i], p.Len())
	}
	return tally, v
}

// admit says whether what goes with a family lets pass what its limits admit,
// and spends the proof if so.
func (m *Memory) admit(now int64, p *Policy, f *Candidate, v *Verdict) {
	second := now / 1_000_000
	if f.MustKeep && m.room(second, p, f) {
		return
	}
	if f.Proof == nil {
		v.Admitted, v.Saturated = !f.MustKeep, f.MustKeep
		return
	}
	if c := m.paid.find(f.Proof.Key, spentID); c != nil && int64(c.expires) > second {
		v.Admitted, v.Spent = false, true
		return
	}
	ends := f.Proof.Expires.Unix()
	c := m.paid.claim(second, f.Proof.Key, spentID, m.paid.horizon(ends-second+farFutureSlack))
	if c == nil {
		v.Admitted, v.Saturated = false, true
		return
	}
	c.expires = uint32(ends)
}

// recall merges what the memory holds of a family into t, which is what is shown,
// rolled and cut down.
//
// What is moved for a clock that was wrong is written down, also by a refusal:
// else the move would be made anew at every look, and the debt would follow the
// clock for ever. That goes for a mark of the memory, and for one that is shown
// by a family that the memory does not know. Of one that it knows, it knows also
// what was admitted here, and a shown mark from a wrong clock adds nothing to
// that: to obey must be no worse than to drop the token.
func (m *Memory) recall(now int64, p *Policy, k Key, shown, t *Tally) {
	for i := range p.rules {
		r := &p.rules[i]
		c := m.find(k, r.id)
		if c == nil {
			t[i] = r.roll(now, t[i])
			if r.beyond(now, shown[i]) {
				if c = m.claim(now/1_000_000, k, r.id, m.horizon(r.reach)); c != nil {
					r.store(now, c, t[i])
				}
			}
			continue
		}
		s, moved := r.remembered(now, c)
		if moved {
			r.store(now, c, s)
		}
		if r.beyond(now, shown[i]) {
			t[i] = s
			continue
		}
		t[i] = r.merge(t[i], s)
	}
}

// keep writes t to memory and reports whether there was room for all of it.
func (m *Memory) keep(now int64, p *Policy, k Key, t *Tally) bool {
	kept := true
	for i := range p.rules {
		r := &p.rules[i]
		if c := m.claim(now/1_000_000, k, r.id, m.horizon(r.reach)); c != nil {
			r.store(now, c, t[i])
		} else {
			kept = false
		}
	}
	return kept
}
