// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
)

// What peers have admitted of a tally is a floor under it, as what a token shows is: a lower bound of the
// truth. How much of what was admitted here they may be ignorant of, package gossip says.

// heard has the counts of a tally that peers know.
type heard [MaxLimits]asked

// hearings are about a tally and its networks; nil without peers.
type hearings [1 + MaxNetworks]heard

func (h *hearings) of(i int) *heard {
	if h == nil {
		return nil
	}
	return &h[i]
}

type asked struct {
	gossip.Limit
	gossip.Heard
}

// among returns the limit of a tally as peers know it, in the window of a time.
func (r *rule) among(now int64, k Key, ends int64) gossip.Limit {
	l := gossip.Limit{Key: max(1, cells.Mix(uint64(k)^uint64(r.id)<<40)), Seconds: uint32(r.seconds), Number: uint32(now / r.window), Bought: ends > 0}
	if r.life > 0 {
		l.Seconds, l.Number = 0, uint32(ends)
	}
	return l
}

// ask asks what peers know of a tally, and takes from its cells what they have given back. The stripe is
// locked.
func (m *Memory) ask(now int64, p *Policy, k Key, from newcomer, known *tallyCells, told *heard) {
	if m.peers == nil {
		return
	}
	for i := range p.rules {
		r, a := &p.rules[i], &told[i]
		a.Limit = r.among(now, k, from.ends)
		a.Heard = m.peers.Look(a.Limit, r.limit.Quota)
		if own := known[i].cell; own != nil && a.Back|a.PrevBack > 0 {
			s, _ := r.remembered(now, own)
			at := max(now, int64(a.Heard.Number)*r.window)
			s = r.restore(now, at, s, int64(a.Back))
			if r.interval == 0 {
				s = r.restore(now, at-r.window, s, int64(a.PrevBack))
			}
			r.store(now, own, s, from.ends)
		}
	}
}

// raise raises the tally of a client or a network to what is known among peers: to m of rule 4.
func (m *Memory) raise(now int64, p *Policy, told *heard, t *Tally) {
	if m.peers == nil {
		return
	}
	for i := range p.rules {
		r, a := &p.rules[i], &told[i].Heard
		t[i] = r.merge(t[i], r.floor(now, t[i].At, a))
	}
}

// floor returns a state that counts no more than all processes together have admitted.
func (r *rule) floor(now, at int64, a *gossip.Heard) State {
	switch {
	case a.Sum|a.Prev == 0:
		return State{}
	case r.interval > 0:
		// What was admitted since the beginning of a window has leaked since then at most. The same holds for
		// the window before (rule 14).
		begin := int64(a.Number) * r.window
		mark := begin + r.leaks(int64(a.Sum), max(0, now-begin)+r.owes)
		if begin -= r.window; a.Prev > 0 {
			mark = max(mark, begin+r.leaks(int64(a.Sum)+int64(a.Prev), max(0, now-begin)+r.owes))
		}
		return r.roll(now, State{At: mark})
	case r.life > 0:
		return State{At: at, Cur: a.Sum}
	case r.limit.Algorithm == FixedWindow:
		return State{At: int64(a.Number), Cur: a.Sum}
	}
	return State{At: int64(a.Number), Cur: a.Sum, Prev: a.Prev}
}

// waits returns a limit for which a request has to wait until peers have heard of what was admitted before,
// or none. Nothing waits for a shadow.
func (m *Memory) waits(p *Policy, f *Candidate, told *heard, price Price) (l gossip.Limit) {
	if price.Cost == 0 || f.Hasty {
		return l
	}
	for i := range p.rules {
		a := &told[i]
		if u, cost := int64(a.Unacked), price.Of(i); u > 0 && cost > 0 && u+cost > a.Slack && !p.rules[i].limit.Shadow {
			return a.Limit
		}
	}
	return l
}

// admitted tells peers what was charged, and what is held.
func (m *Memory) admitted(now int64, p *Policy, told *heard, t *Tally, price Price, v *Verdict) {
	if m.peers == nil {
		return
	}
	for i := range p.rules {
		r, a, cost := &p.rules[i], &told[i], price.Of(i)
		if v.Limits[i].Blocked || cost == 0 {
			continue
		}
		l := a.Limit
		switch {
		case r.interval > 0:
			l.Number = a.Heard.Number
		case r.life == 0:
			l.Number = uint32(t[i].At)
		}
		if r.later {
			m.peers.Hold(time.UnixMicro(now), l, cost, a.Slack)
			continue
		}
		m.peers.Add(time.UnixMicro(now), l, cost, a.Slack)
	}
}

// Hold changes among peers what requests hold of a tally and its networks, in those limits that p charges.
func (m *Memory) Hold(now time.Time, p *Policy, f *Candidate, more int64) {
	if m == nil || m.peers == nil {
		return
	}
	one := func(p *Policy, k Key, ends int64) {
		for i := range p.rules {
			if r := &p.rules[i]; r.later {
			} else if l := r.among(micros(now), k, ends); more < 0 {
				m.peers.Settle(l, -more, false)
			} else {
				m.peers.Hold(now, l, more, 1)
			}
		}
	}
	one(p, f.Key, f.newcomer(micros(now), p).ends)
	for i := range f.Networks {
		one(f.Networks[i].Policy, f.Networks[i].Key, 0)
	}
}

// tellSpent tells peers of a proof, and says when it is spent: once, where they hear each other. If it were
// spent before they have heard, a client that shows it to all of them at once would spend it with each.
func (m *Memory) tellSpent(now int64, f *Candidate, v *Verdict) {
	proof := f.Proof
	l := proof.among()
	h := m.peers.Look(l, 1)
	if h.Sum > h.Own || h.Own > 0 && !proof.told {
		v.Admitted, v.Spent, proof.told = false, true, false
		return
	}
	if h.Own == 0 { // also if it was pushed out
		m.peers.Add(time.UnixMicro(now), l, 1, 1)
		h = m.peers.Look(l, 1)
	}
	if proof.told = h.Unacked > 0 && !f.Hasty; proof.told {
		f.Waits, v.Admitted, v.Wait = l, false, time.Second
	}
}

func (p *Proof) among() gossip.Limit {
	return gossip.Limit{Key: among(p.Key, cells.SpentID), Number: uint32(p.Expires.Unix())}
}

// among returns the key of what is paid for, as peers know it.
func among(k Key, id uint64) uint64 { return max(1, cells.Mix(uint64(k)^id)) }

// GiveBack has a proof be good again that peers were told of, and for which the request was not admitted.
func (m *Memory) GiveBack(p *Proof) {
	if p == nil || !p.told {
		return
	}
	lock := &m.paid.Stripes[m.paid.Of(uint64(p.Key))]
	lock.Lock()
	defer lock.Unlock()
	if c := m.paid.Find(uint64(p.Key), cells.SpentID, 0); c != nil {
		c.Expires = 0
	}
	m.peers.Refund(p.among(), 1)
	p.told = false
}

// SoldElsewhere returns how many tallies peers have sold to a buyer since it was last asked, and the Unix
// second of the last; and, where its Key is not 0, what the next sale waits for: peers have not heard of the
// one before.
func (m *Memory) SoldElsewhere(buyer Key) (sold, last int64, waits gossip.Limit) {
	if m.peers == nil {
		return 0, 0, waits
	}
	n, at, waits := m.peers.SoldTo(among(buyer, cells.SalesID))
	return int64(n), int64(at), waits
}

// HeldElsewhere reports whether a peer has sold a tally that can be redeemed until it ends.
func (m *Memory) HeldElsewhere(tally Key) bool {
	return m.peers != nil && m.peers.Sold(gossip.Limit{Key: among(tally, cells.HeldID)})
}

// Sold tells peers of a sale.
func (m *Memory) Sold(now time.Time, tally Key, ends time.Time, buyers []Key) {
	if m.peers == nil {
		return
	}
	var all []uint64
	for _, b := range buyers {
		all = append(all, among(b, cells.SalesID))
	}
	m.peers.Sell(now, gossip.Limit{Key: among(tally, cells.HeldID), Number: uint32(ends.Unix())}, all)
}
