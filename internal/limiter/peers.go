// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"time"

	"github.com/tallystick/tallystick/internal/cells"
	"github.com/tallystick/tallystick/internal/gossip"
)

// What peers have admitted of a tally is a floor under it, as what a token shows is: a lower bound of the truth. How much
// of what was admitted here they may be ignorant of, package gossip says.

// heard is what is known of the limits of a tally among peers.
type heard [MaxLimits]asked

type asked struct {
	gossip.Limit
	gossip.Heard
}

// in returns the limit in the window of a time, in µs.
func (a *asked) in(r *rule, at int64) gossip.Limit {
	l := a.Limit
	if l.Seconds > 0 {
		l.Number = uint32(at / r.window)
	}
	return l
}

// ask asks what is known of a tally, and takes from its cells what peers have given back. The stripe is locked.
func (m *Memory) ask(now int64, p *Policy, k Key, from guest, known *found, told *heard) {
	if m.peers == nil {
		return
	}
	for i := range p.rules {
		r, a := &p.rules[i], &told[i]
		a.Limit = gossip.Limit{Key: max(1, cells.Mix(uint64(k)^uint64(r.id)<<40)), Seconds: uint32(r.seconds), Number: uint32(now / r.window)}
		if r.life > 0 {
			a.Seconds, a.Limit.Number = 0, uint32(from.ends)
		}
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

// raise raises a tally to what is known among peers.
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
		// What was admitted since the beginning of a window has leaked since then at most; so has what was since that
		// of the window before.
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

// waits returns a limit for which a request has to wait until peers have heard of what was admitted before, or none. Nothing
// waits for a shadow.
func (m *Memory) waits(p *Policy, f *Candidate, told *heard, price Price, held int64) (l gossip.Limit) {
	if m.peers == nil || price.Cost == 0 || f.Hasty {
		return l
	}
	for i := range p.rules {
		r, a := &p.rules[i], &told[i]
		u := int64(a.Unacked)
		if r.later {
			u += held
		}
		if cost := price.Of(i); u > 0 && cost > 0 && u+cost > a.Slack && !r.limit.Shadow {
			return a.Limit
		}
	}
	return l
}

// admitted tells peers what was charged.
func (m *Memory) admitted(now int64, p *Policy, told *heard, t *Tally, price Price, v *Verdict) {
	if m.peers == nil {
		return
	}
	for i := range p.rules {
		r, a, cost := &p.rules[i], &told[i], price.Of(i)
		if r.later || v.Limits[i].Blocked || cost == 0 {
			continue
		}
		l := a.Limit
		switch {
		case r.interval > 0:
			l.Number = a.Heard.Number
		case r.life == 0:
			l.Number = uint32(t[i].At)
		}
		m.peers.Add(time.UnixMicro(now), l, cost, a.Slack)
	}
}

// A sale is counted among peers by the day, so that a record of it lasts; its level leaks by itself.
func salesOf(now int64, buyer Key) gossip.Limit {
	const day = 24 * 60 * 60
	return gossip.Limit{Key: max(1, cells.Mix(uint64(buyer)^cells.SalesID)), Seconds: day, Number: uint32(now / day)}
}

// SoldElsewhere returns how many tallies peers have sold to a buyer since it was last asked, and the Unix second of the last sale; and
// which limit a sale to it has to wait for, until peers have heard of the sale before.
func (m *Memory) SoldElsewhere(now int64, buyer Key) (sold, last int64, waits gossip.Limit) {
	if m.peers == nil {
		return 0, 0, waits
	}
	l := salesOf(now, buyer)
	h := m.peers.Look(l, 1)
	if h.Unacked > 0 {
		waits = l
	}
	return int64(h.News), int64(h.NewsAt), waits
}

// Sold tells peers of a sale.
func (m *Memory) Sold(now time.Time, buyer Key) {
	if m.peers != nil {
		m.peers.Add(now, salesOf(now.Unix(), buyer), 1, 1)
	}
}
