// SPDX-License-Identifier: Apache-2.0

// Package court judges what real servers answer. A Stage is the servers, a Client comes to a policy of theirs, and the
// Oracle sees every answer of every client: so it knows what each tally has used, and where, and whether an answer was just.
package court

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A Count counts what has happened, and keeps what was noted of the first.
type Count struct {
	mu    sync.Mutex
	n     int64
	first string
}

// Note counts one, and says what it is.
func (c *Count) Note(format string, of ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.first == "" {
		c.first = fmt.Sprintf(format, of...)
	}
}

// Add counts some.
func (c *Count) Add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

// Load returns how many there are.
func (c *Count) Load() int64 {
	n, _ := c.Read()
	return n
}

// Read returns how many there are, and what was noted of the first.
func (c *Count) Read() (n int64, first string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.first
}

// An Outage is when something does not stand, or others do not know yet that it does.
type Outage struct {
	state atomic.Int64 // even: it stands; odd: it does not
}

// Now is for Stood.
func (o *Outage) Now() int64 { return o.state.Load() }

// Stood says whether it stood all the time since Now said this.
func (o *Outage) Stood(since int64) bool { return since%2 == 0 && o.state.Load() == since }

// Change is the beginning or the end of an outage.
func (o *Outage) Change() { o.state.Add(1) }

// An Oracle knows what every tally has truly used, on which instance and when, because it sees every answer that any client
// gets, of attackers too. So it says of a refusal whether the client had room, and of an admission whether it had none. It errs
// in favour of the servers: a request under way, or without an answer, may have been charged.
type Oracle struct {
	Unjust      Count `what:"honest: refused with room"`
	Excess      Count `what:"honest: admitted without room"`
	TokenErrors Count `what:"honest: a token not accepted"` // where Strict
	Strict      bool
	Touched     atomic.Bool // some clock was wrong by far, so that a tally may have counts of other windows
	Apart       atomic.Bool // some clock differs by what it may, so that a bucket may have been charged later by as much
	Away        Outage      // of an instance
	Decisions   Count
	Served      Count // requests of honest clients
	Refused     Count
	Asked       Count // to work first
	Busy        Count // because peers, or the counter, did not answer in time
	Ended       Count // tokens, by a clock that was wrong

	Slack int64               // is added to every bound: for tests
	Worst map[string]*Reached // how close clients of each kind came to their bounds

	clock  *atomic.Int64 // by which all instances should go
	terms  map[string]*Terms
	mu     sync.Mutex
	used   map[tally]*used
	early  []early
	starts []start
}

// NewOracle returns the oracle of some policies.
func NewOracle(terms map[string]*Terms) *Oracle {
	return &Oracle{terms: terms, used: map[tally]*used{}, Worst: map[string]*Reached{}}
}

// A start is an instance that began anew, and when by its clock.
type start struct {
	instance int
	at       int64
}

// An early refusal refuses a client although one of its tallies had room.
type early struct {
	roomy []*used
	how   string
}

// Reached is how close clients of one kind came to a bound, on one instance in a window of its clock.
type Reached struct{ Admitted, Bound, Over int64 }

func (o *Oracle) of(t tally) *used {
	if o.used[t] == nil {
		o.used[t] = &used{by: map[place]int64{}, unanswered: map[int64]int64{}, most: map[int64]int64{}}
	}
	return o.used[t]
}

// apart is how many seconds they do, at most.
func (o *Oracle) apart() int64 {
	if o.Apart.Load() {
		return permitted
	}
	return 0
}

// Verdict says, when all is over, how many of the refusals of clients that had room a full memory explains, and notes the others.
// What a tally has begun with goes along with it, in the memory and in its token: so the answer that told of it explains
// also those that came before.
func (o *Oracle) Verdict() (explained int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.early {
		if slices.ContainsFunc(e.roomy, func(u *used) bool { return !u.inherited }) {
			o.Unjust.Note("%s", e.how)
		} else {
			explained++
		}
	}
	o.early = nil
	return explained
}

// Restart notes that an instance began anew: by a start, or because its clock was set back past the beginning of a window
// and forward again, docs/bounds.md.
func (o *Oracle) Restart(instance int, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts = append(o.starts, start{instance, at})
}

// Close judges what each tally was admitted by each instance in each window that ended before a moment, and forgets it. No
// clock may go back there. All bounds of an address together come to what docs/bounds.md says: (N+C)·L shared, F·(N+C)·L
// bought, and a fifth of (N+C)·L waited.
func (o *Oracle) Close(before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t, u := range o.used {
		terms := o.terms[t.policy]
		for at, n := range u.by {
			if at.window >= before/terms.Window {
				continue
			}
			quota := u.most[at.window] + terms.Burst
			kind := fmt.Sprintf("%s on /%s", u.kind, t.policy)
			switch {
			case t.part == wrong:
				kind, quota = fmt.Sprintf("%s on /%s", u.kind, wrong), u.most[at.window]
			case t.part == waited:
				quota = max(1, quota/5)
			case t.part == bought && u.ends/terms.Window < at.window:
				quota = 0
			}
			if t.part == bought || t.part == waited {
				kind += ", " + string(t.part)
			}
			o.reach(kind, n, quota, at, terms)
			delete(u.by, at)
		}
		over := func(window, _ int64) bool { return window < before/terms.Window }
		maps.DeleteFunc(u.unanswered, over)
		maps.DeleteFunc(u.most, over)
		if len(u.by)+len(u.unanswered) == 0 && u.underway == 0 {
			delete(o.used, t)
		}
	}
	o.starts = slices.DeleteFunc(o.starts, func(s start) bool { return s.at < before })
}

// reach notes what was admitted beside a bound. An instance that began anew counts once more.
func (o *Oracle) reach(kind string, n, bound int64, at place, terms *Terms) {
	times := int64(1)
	for _, s := range o.starts {
		if s.instance == at.instance && s.at/terms.Window == at.window {
			times++
		}
	}
	bound = bound*times + o.Slack
	w := o.Worst[kind]
	if w == nil {
		w = &Reached{}
		o.Worst[kind] = w
	}
	if n > bound {
		w.Over++
	}
	if w.Bound == 0 || n*w.Bound > w.Admitted*bound {
		w.Admitted, w.Bound = n, bound
	}
}
