// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
)

// Record counts in a tally and its networks what was admitted already: what a request has
// cost beyond its estimate, or what an exact counter has admitted, so that the counts are there
// when the counter is not. It asks no limit and refuses nothing: counts go beyond the quota,
// and a bucket's debt beyond its burst, see "Settled costs" in the package documentation. It
// counts on those limits that p charges, see [Policy.Charging], and returns the tally.
// m may be nil. It panics as Take does if there are too many networks.
func (m *Memory) Record(now time.Time, p *Policy, f *Candidate, cost int64) Tally {
	return m.record(now, p, f, cost, func(_ gossip.Limit, cost int64) int64 { return cost })
}

// RecordHeld is Record of what the request held until now.
func (m *Memory) RecordHeld(now time.Time, p *Policy, f *Candidate, cost int64) Tally {
	return m.record(now, p, f, cost, func(l gossip.Limit, cost int64) int64 { return m.peers.Settle(l, cost, true) })
}

func (m *Memory) record(now time.Time, p *Policy, f *Candidate, cost int64, untold func(gossip.Limit, int64) int64) Tally {
	return adjust(now, m, p, f, cost, (*rule).record, micros(now), func(l gossip.Limit, cost, slack int64) {
		if rest := untold(l, min(cost, MaxQuota)); rest > 0 {
			m.peers.Add(now, l, rest, slack)
		}
	})
}

// Restore takes back what [Memory.Record] or a decision counted at then, where it still
// counts: in a window of its own or the one after, and in a bucket what is still
// owed, a burst at most. It returns the tally. Tokens that were sent in between still say
// the old one; only a client that shows the new one has its quota back. m may be
// nil.
func (m *Memory) Restore(now, then time.Time, p *Policy, f *Candidate, cost int64) Tally {
	at := micros(then)
	return adjust(now, m, p, f, cost, func(r *rule, us int64, s State, cost int64) State { return r.restore(us, at, s, cost) }, at, func(l gossip.Limit, cost, _ int64) {
		m.peers.Refund(l, min(cost, MaxQuota))
	})
}

// adjust changes the states of a tally and of its networks in one critical
// section: each by f.Costs, or by cost. change gets states that are rolled to now. tell tells peers, which count it in the
// windows of the time at.
func adjust(now time.Time, m *Memory, p *Policy, f *Candidate, cost int64, change func(*rule, int64, State, int64) State, at int64, tell func(l gossip.Limit, cost, slack int64)) Tally {
	us, tally, price := micros(now), f.Shown, f.price(cost)
	p.roll(us, &tally)
	if m == nil {
		p.adjust(us, &tally, price, change)
		return tally
	}
	f.countNetworks()
	var locked cells.Locks
	c := m.countsOf(p)
	own := c.place(f.Key)
	locked.Add(own.stripe)
	for i := range f.Networks {
		locked.Add(c.stripes.Of(uint64(f.Networks[i].Key)))
	}
	locked.Hold(c.stripes)
	defer locked.Release(c.stripes)
	from := f.newcomer(us, p)
	one := func(p *Policy, own slot, key Key, from newcomer, shown, t *Tally) {
		var (
			known tallyCells
			told  heard
		)
		c.lookup(p, &own, &known)
		m.ask(us, p, key, from, &known, &told)
		c.load(us, p, &own, from, shown, t, &known)
		m.raise(us, p, &told, t)
		p.adjust(us, t, price, change)
		c.store(us, p, &own, from, t, &known)
		for i := range p.rules {
			if r, cost := &p.rules[i], price.Of(i); m.peers != nil && !r.later && cost > 0 {
				tell(r.among(at, key, from.ends), cost, told[i].Slack)
			}
		}
	}
	one(p, own, f.Key, from, &f.Shown, &tally)
	for i, w := range f.Networks {
		var t Tally
		one(w.Policy, c.place(w.Key), w.Key, from.network(i), &t, &t)
	}
	return tally
}

func (p *Policy) adjust(now int64, t *Tally, price Price, change func(*rule, int64, State, int64) State) {
	for i := range p.rules {
		if r, cost := &p.rules[i], price.Of(i); !r.later && cost > 0 {
			t[i] = change(r, now, t[i], cost)
		}
	}
}
