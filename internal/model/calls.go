// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/shop"
)

// A call is one that an instance makes to its memory, at a time of its clock.
type call struct {
	clock time.Duration
	kind  kind
	shown [tallies]count // of ask
	away  group          // those of them that are not at home
	tally int8           // of buy
	proof int8           // of ask, in EveryRequest
}

type kind uint8

const (
	ask   kind = iota // a request
	buy               // a proof that is worth just enough
	stint             // a proof that is worth a hash too little
)

type answer struct {
	admitted bool  // of buy and stint: granted
	held     bool  // of buy and stint: the instance has sold it before
	work     int64 // that the proof was worth
	carries  bool  // there is a token in it, which the client did not have
	tally    int8  // whose
	state    limiter.State
	fault    string // which rule was broken, as far as one memory shows it
}

func key(f int) limiter.Key { return limiter.Key(uint64(f+1) * 0x9e3779b97f4a7c15) }

// play is how package middleware calls package limiter: own tallies before the shared one,
// which is for those who have none or have used them up.
func (w *compiled) play(m *limiter.Memory, c *call, cs *counts) answer {
	now := base.Add(c.clock)
	if c.kind != ask {
		return w.sell(m, now, c)
	}
	var (
		own   [tallies]limiter.Candidate
		which [tallies]int8
		n     int
	)
	for f := bought; f < tallies; f++ {
		if c.shown[f] != absent {
			own[n], which[n] = w.own(c, f), int8(f)
			own[n].Shown = cs.shown(c.shown[f])
			n++
		}
	}
	var (
		a    answer
		wait time.Duration
	)
	if n > 0 {
		i, after, v := m.Choose(now, w.policy[bought], own[:n], 1)
		a = answer{admitted: v.Admitted, tally: which[i], state: after[0], carries: w.policy[bought].Exceeds(now, after, own[i].Shown)}
		wait = v.Wait
	}
	if n > 0 && (a.admitted || w.Mode == Newcomers) {
		return a
	}
	f := limiter.Candidate{Key: key(shared), Shown: cs.shown(c.shown[shared])}
	if w.Mode == EveryRequest {
		f.Proof = &limiter.Proof{Key: proofKey(c.proof), Expires: base.Add(time.Hour)}
	}
	after, v := m.Take(now, w.policy[shared], &f, 1)
	if n > 0 && !v.Admitted && v.Wait >= wait {
		return a
	}
	return answer{admitted: v.Admitted, tally: shared, state: after[0], carries: w.policy[shared].Exceeds(now, after, f.Shown)}
}

// own is a bought tally as it may be charged on the instance that is asked: away from home it is in a
// network of its own, which is counted in memory alone.
func (w *compiled) own(c *call, f int) limiter.Candidate {
	own := limiter.Candidate{Key: key(f)}
	if c.away.has(f) && !w.whole {
		own.Networks = []limiter.Network{{Key: key(share(f)), Policy: w.policy[share(f)]}}
	}
	return own
}

func proofKey(proof int8) limiter.Key { return key(16 + int(proof)) }

// sell redeems a challenge of which the tally derives.
func (w *compiled) sell(m *limiter.Memory, now time.Time, c *call) answer {
	buyers := []shop.Buyer{{Key: key(32), Crowds: 1}}
	price := w.prices.Quote(now, m, buyers).Price
	least := price - price*7/15
	if c.kind == stint {
		least--
	}
	sale := w.prices.Redeem(now, m, buyers, key(int(c.tally)), base.Add(time.Hour), least)
	return answer{admitted: sale.Granted, held: sale.Held, work: least, tally: c.tally}
}

// honoured reports whether a tally that was just bought is opened again for nothing.
func (w *compiled) honoured(m *limiter.Memory, c *call) bool {
	buyers := []shop.Buyer{{Key: key(32), Crowds: 1}}
	return w.prices.Redeem(base.Add(c.clock), m, buyers, key(int(c.tally)), base.Add(time.Hour), 0).Held
}

// held is what a memory holds of a tally.
func (w *compiled) held(m *limiter.Memory, at time.Duration, f int) limiter.State {
	t, _ := m.Take(base.Add(at), w.policy[f], &limiter.Candidate{Key: key(f)}, 0)
	return t[0]
}

func (w *compiled) appendSales(b []byte, m *limiter.Memory, at time.Duration) []byte {
	now, buyers := base.Add(at), []shop.Buyer{{Key: key(32), Crowds: 1}}
	b = binary.AppendVarint(b, w.prices.Quote(now, m, buyers).Price)
	for f := bought; f <= w.Tallies; f++ {
		b = append(b, flag(w.prices.Redeem(now, m, buyers, key(f), base.Add(time.Hour), 0).Held))
	}
	return b
}

// appendSpent asks for each proof on behalf of somebody new, and so changes m.
func (w *compiled) appendSpent(b []byte, m *limiter.Memory, at time.Duration) []byte {
	for p := range int8(w.Proofs) {
		f := limiter.Candidate{Key: key(64 + int(p)), Proof: &limiter.Proof{Key: proofKey(p), Expires: base.Add(time.Hour)}}
		_, v := m.Take(base.Add(at), w.policy[shared], &f, 1)
		b = append(b, flag(v.Spent))
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

const overShare = "an instance that is not the home of a tally admits more than its share"

// judged plays a call, and holds against the answer what one memory alone must keep to.
func (w *compiled) judged(m *limiter.Memory, c *call, cs *counts) answer {
	var before, after [counted]limiter.State
	for _, f := range w.tracked {
		before[f] = w.held(m, c.clock, f)
	}
	without := w.admitsWithout(m, c)
	a := w.play(m, c, cs)
	for _, f := range w.tracked {
		after[f] = w.held(m, c.clock, f)
	}
	if c.kind != ask {
		switch {
		case a.admitted && !w.honoured(m, c):
			a.fault = "a tally that was sold has to be paid again"
		case before != after:
			a.fault = "a sale changes what is counted"
		case c.kind == stint && a.admitted && !a.held:
			a.fault = "a proof that is worth too little opens a tally"
		}
		return a
	}
	for _, f := range w.tracked {
		charged := a.admitted && (f == int(a.tally) || c.away.has(int(a.tally)) && f == share(int(a.tally)))
		if !a.admitted && w.Step < 0 {
			continue // what is moved for a clock that was wrong is written down
		}
		switch {
		case !charged && after[f] != before[f]:
			a.fault = "a tally is charged that the answer does not name"
		case charged && !w.grew(f, before[f], after[f]):
			a.fault = "what is admitted is not remembered"
		case charged && f >= tallies && !w.room(f, c.clock, after[f], 0):
			a.fault = overShare
		case charged && !w.room(f, c.clock, after[f], 0):
			a.fault = "one instance admits more than the quota"
		case charged && f < tallies && after[f] != a.state:
			a.fault = "the token is not what the memory holds"
		}
	}
	// A window that is ahead of the clock by the skew allowed begins early for that tally.
	ahead := !w.bucket() && a.state.At > w.windowAt(c.clock)
	if a.admitted && !without[a.tally] && !ahead {
		a.fault = "a token makes the limiter less strict than its memory"
	}
	return a
}

// admitsWithout says of which tallies a memory has room for a request that shows no token.
func (w *compiled) admitsWithout(m *limiter.Memory, c *call) (room [tallies]bool) {
	for f := range 1 + w.Tallies {
		own := w.own(c, f)
		room[f] = m.Peek(base.Add(c.clock), w.policy[f], &own, 1).Admitted
	}
	return room
}

// grew reports whether a memory that held before has counted one more.
func (w *compiled) grew(f int, before, after limiter.State) bool {
	if w.bucket() {
		return after.At >= before.At+w.interval[f].Microseconds()
	}
	return after.At > before.At || after.At == before.At && after.Cur > before.Cur
}
