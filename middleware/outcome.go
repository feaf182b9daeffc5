package middleware

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// Limits that count by outcome are charged when the outcome is known. Until then a request
// holds its cost: beside what is counted, because a token that carried it would make it
// last. (Tokens are merged by their maximum, so that each neighbour's would bring it back:
// of log-ins behind one address that were all right, 41 % were refused.)

// holdTime is how long a request holds its cost. Then it is charged: connections that send
// a byte now and then would hold all of a quota for nothing.
const holdTime = 10 * time.Second

// Outcomes are what the requests of a policy hold. There is one for each live request, and no
// more. All of it is under one lock, the memory's counts of these limits too: what is no longer held
// is charged, or free, in the same moment.
type outcomes struct {
	mu          sync.Mutex
	held        map[storeless.Key]int64 // of tallies and networks
	first, last *pending                // those that hold, by age
}

// A pending is the part of a request's charge that depends on its outcome.
type pending struct {
	of         *outcomes
	e          *engine
	t          *tier
	dc         *decisionContext
	f          storeless.Candidate // its networks have the limits by outcome
	cost       int64
	since      time.Time
	state      outcomeState
	at         time.Time // when it was charged
	byStatus   bool      // it is free because of its status
	returned   bool      // the handler has
	prev, next *pending
}

type outcomeState uint8

const (
	holding outcomeState = iota
	counts
	free
)

// Charge says that the request counts in the limits of [ByOutcome], and NoCharge that it
// does not, whatever its status is: for handlers whose status does not tell, such as those
// that redirect in either case, or stream. The last word holds, also after the response and
// after the ten seconds; only a handler that panics is charged all the same. The token
// says it if the response header is not yet written; else the memory of this instance alone
// knows. They do nothing where no limit counts by outcome, and may be called from any goroutine.
func Charge(r *http.Request) { say(r, true) }

// NoCharge is told with [Charge].
func NoCharge(r *http.Request) { say(r, false) }

// say passes on what the handler says to the innermost policy that counts by outcome.
func say(r *http.Request, charged bool) {
	for dc := contextOf(r.Context()); dc != nil; dc = contextOf(dc.Context) {
		if p := dc.pending(); p != nil {
			p.say(charged)
			return
		}
	}
}

// pending returns what of the charge depends on the outcome, or nil.
func (dc *decisionContext) pending() *pending {
	if dc.aside == nil {
		return nil
	}
	return dc.aside.pending
}

// hold locks, charges what was held for too long, and returns what unlocks. All that changes
// counts of the policy begins with it, so that they change in the order of time.
func (o *outcomes) hold(now time.Time) (release func()) {
	o.mu.Lock()
	for p := o.first; p != nil && now.Sub(p.since) >= holdTime; p = o.first {
		// As of the moment when it was due: nothing was counted since.
		p.charge(p.since.Add(holdTime))
	}
	return o.mu.Unlock
}

// take checks all limits and charges those that do not count by outcome. In the others an
// admitted request holds its cost.
func (o *outcomes) take(now time.Time, e *engine, t *tier, f *storeless.Candidate, cost int64) (storeless.Tally, storeless.Verdict, *pending) {
	defer o.hold(now)()
	held := storeless.Candidate{Key: f.Key, Provider: f.Provider}
	f.Held = o.held[f.Key]
	for i := range f.Networks {
		f.Networks[i].Held = o.held[f.Networks[i].Key]
	}
	tally, v := e.memory.Take(now, t.policy, f, cost)
	if !v.Admitted || cost == 0 {
		return tally, v, nil
	}
	for i, late := range []*storeless.Policy{t.late56, t.late48}[:len(f.Networks)] {
		held.Networks = append(held.Networks, storeless.Network{Key: f.Networks[i].Key, Policy: late})
	}
	p := &pending{of: o, e: e, t: t, f: held, cost: cost, since: now, prev: o.last}
	o.add(&p.f, cost)
	if o.last = p; p.prev == nil {
		o.first = p
	} else {
		p.prev.next = p
	}
	return tally, v, p
}

// add changes what a tally and its networks hold.
func (o *outcomes) add(f *storeless.Candidate, cost int64) {
	o.addTo(f.Key, cost)
	for i := range f.Networks {
		o.addTo(f.Networks[i].Key, cost)
	}
}

func (o *outcomes) addTo(k storeless.Key, cost int64) {
	if o.held[k] += cost; o.held[k] == 0 {
		delete(o.held, k)
	}
}

// letGo ends the holding.
func (p *pending) letGo() {
	p.of.add(&p.f, -p.cost)
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		p.of.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		p.of.last = p.prev
	}
	p.prev, p.next = nil, nil
}

// charge counts the request.
func (p *pending) charge(at time.Time) {
	if p.state == counts {
		return
	}
	if p.state == holding {
		p.letGo()
	}
	p.e.memory.Record(at, p.t.late, &p.f, p.cost)
	p.state, p.at = counts, at
}

// pardon has the request not count.
func (p *pending) pardon(now time.Time) {
	switch p.state {
	case holding:
		p.letGo()
	case counts:
		p.e.memory.Restore(now, p.at, p.t.late, &p.f, p.cost)
	}
	p.state = free
}

// say obeys the handler.
func (p *pending) say(charged bool) {
	now := p.e.now()
	defer p.of.hold(now)()
	p.byStatus = false
	if charged {
		p.charge(now)
	} else {
		p.pardon(now)
	}
}

// conclude is told the status of the response while its header can still be changed. It is 0
// if the handler has said none. A client that has gone has seen no status.
func (p *pending) conclude(status int) {
	now := p.e.now()
	defer p.of.hold(now)()
	switch {
	case p.state == holding && slices.Contains(p.e.free, status) && p.dc.Context.Err() == nil:
		p.pardon(now)
		p.byStatus = true
	case p.state == holding, p.byStatus && status == 0:
		p.charge(now)
	}
	if p.state == counts {
		p.tell(now)
	}
}

// tell has the token say what is counted by now.
func (p *pending) tell(now time.Time) {
	who, f := p.e.chargedBy(p.dc)
	f.Networks = nil
	tally, _ := p.e.memory.Take(now, who.tier.policy, &f, 0)
	p.e.reissue(now, p.dc, &who, &tally, nil)
}

// end concludes what no status has: the handler has returned without one, or has panicked.
func (p *pending) end() {
	if !p.returned {
		p.say(true)
	}
}

// resize makes the request cost more, or less, and returns its tally then.
func (p *pending) resize(now time.Time, tally storeless.Tally, more int64) storeless.Tally {
	p.cost += more
	switch p.state {
	case holding:
		p.of.add(&p.f, more)
	case counts:
		if more < 0 {
			return p.e.memory.Restore(now, p.at, p.t.late, &p.f, -more)
		}
		return p.e.memory.Record(now, p.t.late, &p.f, more)
	}
	return tally
}
