// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A part holds the calls to one thing that can fail: a counter, or a node of one.
// When a call is not answered in time, it tells load from an outage:
//
//   - A part that has answered any call since works. If more than half of the places
//     are taken, or the bound holds calls back, the call met load. Otherwise it
//     missed alone: the policy chooses for this request, and there is no sign of an
//     outage.
//   - A part that has answered no call may have failed. With many calls, or when some
//     waited while it still answered, the silence must last for a breakPause. Meanwhile
//     calls go out one at a time: by then the server has worked off its queue, and a
//     probe that does not wait in it is judged.
//   - When deadlines are noticed late, the instance itself is short of CPU, and answers may lie
//     unread: that is load too. Only a silence of starvedPause is an outage then.
//
// Otherwise a client could slow an engine down and move all clients to the fallback.
type part struct {
	mu      sync.Mutex
	turns   turns
	bound   bound
	breaker breaker
	out     [callers]int
	givenUp []givenUp
	answers uint64
	loaded  uint64 // calls that came when more than half of the places were taken
	heard   uint64 // of loaded, at the last answer
	queued  uint64 // calls that had to wait
	queue   bool   // a call did at the last answer

	why error // the last call failed

	starved time.Time // when a deadline was noticed late, of the monotonic clock

	failedAt atomic.Int64 // when a call failed last, of an open breaker, in µs since 1970; 0: it is closed
}

// A ticket is a call that is out.
type ticket struct {
	holder *holder
	seen   seen
	number uint64    // of those that went out
	sent   time.Time // of the monotonic clock: what a round trip takes is no date
	probe  bool      // of an open breaker
	needed bool      // the bound was about to hold a call back
}

// seen is what a call saw when it came.
type seen struct{ answers, loaded, queued uint64 }

// enter has a call go out, at once or when it is its turn. The outcome is Answered if it
// has, and must be followed by leave.
func (p *part) enter(now time.Time, clock func() time.Time, who Caller, key string, terms terms) (ticket, Outcome, error) {
	p.mu.Lock()
	t := ticket{seen: seen{p.answers, p.loaded, p.queued}, sent: time.Now()}
	if p.breaker.open() {
		defer p.mu.Unlock()
		if !p.breaker.admits(now, terms.deadline) {
			return t, NotAsked, nil
		}
		// It does not wait: it is how load is told from an outage.
		t.probe, t.holder = true, p.turns.force(who, key)
		p.send(&t, terms)
		return t, Answered, nil
	}
	if t.holder = p.turns.hold(who, key, terms.most); t.holder == nil {
		p.loaded++
		p.mu.Unlock()
		return t, Busy, nil
	}
	if 2*p.turns.all() > terms.most {
		p.loaded++
	}
	p.proceed(t.sent, terms)
	if p.hasPlace(who, terms) && p.turns.none(who) {
		p.send(&t, terms)
		p.mu.Unlock()
		return t, Answered, nil
	}
	p.queued++
	w := p.turns.wait(t.holder, t.sent.Add(terms.deadline), t.seen.loaded)
	patience := terms.deadline - p.bound.reserve(terms.deadline)
	p.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case t.number = <-w.goes:
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.number == 0 {
		select {
		case t.number = <-w.goes: // at the last moment
		default:
		}
	}
	if t.number == 0 {
		p.noteDelay(time.Since(t.sent)-patience, terms)
		outcome := p.tired(&t, clock(), terms)
		p.turns.withdraw(t.holder, w)
		p.turns.release(t.holder)
		return t, outcome, errSilent(p.why)
	}
	t.sent, t.needed = time.Now(), true
	if p.breaker.open() {
		p.out[t.holder.who]--
		p.turns.release(t.holder)
		p.proceed(t.sent, terms)
		return t, NotAsked, nil
	}
	return t, Answered, nil
}

// hasPlace reports whether one more call may go out. Payers have places of their own beyond the
// bound: with a small bound another place would come free too late. They take no more than these from
// strangers; for the other places they wait their turns.
func (p *part) hasPlace(who Caller, terms terms) bool {
	places := p.bound.places(terms.most)
	own := max(1, places/4)
	if who == Payer {
		return p.all() < places+own
	}
	return p.all()-min(own, p.out[Payer]) < places
}

// all returns how many calls are out.
func (p *part) all() int { return p.out[Stranger] + p.out[Payer] }

// send notes that a call goes out.
func (p *part) send(t *ticket, terms terms) {
	p.out[t.holder.who]++
	p.bound.sent++
	t.number = p.bound.sent
	t.needed = 2*p.all() > p.bound.places(terms.most)
}

// proceed lets those go whose turn it is, while there is room for them. Among many it
// skips those that have too little time left: what they would get is an answer that comes
// too late. Among few it does not: after a stall all are answered at once.
func (p *part) proceed(now time.Time, terms terms) {
	p.forget(func(g givenUp) bool { return !g.ends.After(now) })
	for {
		w := p.turns.take(p.hasPlace(Stranger, terms), p.hasPlace(Payer, terms))
		if w == nil {
			return
		}
		if p.loaded != w.loaded && w.ends.Sub(now) < p.bound.reserve(terms.deadline) {
			w.goes <- 0
			continue
		}
		p.out[w.who]++
		p.bound.sent++
		w.goes <- p.bound.sent
	}
}

// A givenUp call is one that the server may still have in its queue.
type givenUp struct {
	who    Caller
	number uint64
	ends   time.Time // when the server must be through with it
}

// giveUp has one of many calls keep its place among those that are out, though its caller
// has gone: the server will work it off all the same. It does so until a later call is
// answered, and for another deadline at most.
func (p *part) giveUp(t *ticket, terms terms) {
	p.givenUp = append(p.givenUp, givenUp{t.holder.who, t.number, time.Now().Add(terms.deadline)})
}

// forget frees the places of calls that the server must be through with.
func (p *part) forget(over func(givenUp) bool) {
	p.givenUp = slices.DeleteFunc(p.givenUp, func(g givenUp) bool {
		gone := over(g)
		if gone {
			p.out[g.who]--
		}
		return gone
	})
}

// How a call came back.
type comeback uint8

const (
	lost comeback = iota
	answered
	late
)

// leave notes that a call is back.
func (p *part) leave(t *ticket, how comeback, terms terms) {
	took := time.Since(t.sent)
	p.mu.Lock()
	defer p.mu.Unlock()
	if how == late && p.busySilence(t, terms) {
		p.giveUp(t, terms)
	} else {
		p.out[t.holder.who]--
	}
	switch how {
	case answered:
		p.answers++
		p.heard, p.queue = p.loaded, !p.turns.empty()
		p.forget(func(g givenUp) bool { return g.number < t.number })
		p.bound.answered(t.number, took, t.needed || !p.turns.empty(), terms)
		p.breaker.succeeded()
		p.why = nil
		p.failedAt.Store(0)
	case late:
		p.bound.missed(t.number, p.answers == t.seen.answers, p.loaded != t.seen.loaded, terms)
	}
	p.turns.release(t.holder)
	p.proceed(time.Now(), terms)
}

type failure struct {
	why          error
	began, ended time.Time
	busy, late   bool
	delay        time.Duration // with which the deadline was noticed
}

// judge says what it means that a call has failed.
func (p *part) judge(t *ticket, f failure, terms terms) Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = f.why
	p.noteDelay(f.delay, terms)
	if (f.busy || f.late) && p.answers != t.seen.answers {
		if f.busy || p.isStarved() || p.busy(t, terms) {
			return Busy
		}
		return p.failed()
	}
	if f.delay > starvedPause && !p.breaker.open() {
		// The machine has slept: of that time nothing is known.
		p.breaker, f.began = breaker{}, f.ended.Add(-terms.deadline)
	}
	p.breaker.note(f.began)
	if (f.busy || f.late) && !p.breaker.open() && p.breaker.silence(f.ended) < p.grace(t, f.busy, terms) {
		return Busy
	}
	if t.probe || !p.breaker.open() { // what set out before it opened tells nothing new
		p.breaker.failed(f.began, f.ended, terms.deadline)
	}
	if p.breaker.open() {
		p.failedAt.Store(max(1, f.ended.UnixMicro()))
	}
	return p.failed()
}

// tired says what it means that a call has waited for its turn in vain. It says nothing
// of the counter: it was not asked.
func (p *part) tired(t *ticket, now time.Time, terms terms) Outcome {
	if p.answers != t.seen.answers || !p.breaker.silent() || p.breaker.silence(now) < p.grace(t, false, terms) {
		return Busy
	}
	return p.failed()
}

// grace is for how long a silence is load: as long as the server may have a queue, or this
// process had no turns to read its answers.
func (p *part) grace(t *ticket, busy bool, terms terms) time.Duration {
	switch {
	case p.isStarved():
		return starvedPause
	case busy || p.busySilence(t, terms):
		return breakPause
	}
	return 0
}

// noteDelay notes with which delay a deadline was noticed. A pause of the garbage collector,
// and another program that has its turn, are shorter; of a long deadline ten milliseconds
// would explain nothing.
func (p *part) noteDelay(delay time.Duration, terms terms) {
	if delay > max(10*time.Millisecond, terms.deadline/8) {
		p.starved = time.Now()
	}
}

// isStarved reports whether this process was short of turns a moment ago: not every deadline
// is late then.
func (p *part) isStarved() bool { return !p.starved.IsZero() && time.Since(p.starved) < breakPause }

// busySilence reports whether the part was busy since a call came or since the last
// answer: what is idle for a moment has not recovered. So it is where calls waited
// when it answered last, or the last answers took long.
func (p *part) busySilence(t *ticket, terms terms) bool {
	return p.loaded != min(t.seen.loaded, p.heard) || p.queue || p.bound.pressed(terms.deadline)
}

// busy reports whether a call that is back, while others were answered, has met
// load: many calls, or a queue of the server's, in which they took long as well.
func (p *part) busy(t *ticket, terms terms) bool {
	return p.loaded != t.seen.loaded || p.queued != t.seen.queued || p.bound.pressed(terms.deadline)
}

// failed is the outcome of a call that is no load.
func (p *part) failed() Outcome {
	if p.breaker.open() {
		return Down
	}
	return Failed
}
