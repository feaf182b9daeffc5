// SPDX-License-Identifier: Apache-2.0

package main

import "sync"

// quotas are what the quota of a policy may be at the moment: while Reconfigure goes from
// instance to instance it is one on some and another one on others.
type quotas struct {
	mu      sync.Mutex
	dropped int      // of past
	past    []spread // the last is in force
}

// A spread is the least and the most that something may be.
type spread struct{ least, most int64 }

func (s spread) with(o spread) spread { return spread{min(s.least, o.least), max(s.most, o.most)} }

func newQuotas(quota int64) *quotas { return &quotas{past: []spread{{quota, quota}}} }

// remembered is how many changes a request may last.
const remembered = 1000

// change says that the quota may become another one from now on; the result is called when it
// has, everywhere.
func (q *quotas) change(quota int64) (done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.past) > 2*remembered {
		q.past = append(q.past[:0], q.past[remembered:]...)
		q.dropped += remembered
	}
	q.past = append(q.past, q.past[len(q.past)-1].with(spread{quota, quota}))
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.past = append(q.past, spread{quota, quota})
	}
}

// begin returns a function that says what the quota may have been since.
func (q *quotas) begin() (during func() spread) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.dropped + len(q.past) - 1
	return func() spread {
		q.mu.Lock()
		defer q.mu.Unlock()
		since := q.past[max(0, first-q.dropped):]
		s := since[0]
		for _, o := range since[1:] {
			s = s.with(o)
		}
		return s
	}
}

// An oracle knows what one client has truly used of a sliding window, because it sees all of its
// answers. So it says of each whether it was just, both ways.
type oracle struct {
	at         int64 // the window
	prev, last int64
	reach      int64 // what was used since the clocks agreed for three windows
}

// roll goes on to a window. Where the clocks have disagreed, all that was used since may count.
func (o *oracle) roll(at int64, touched bool) {
	switch at - o.at {
	case 0:
	case 1:
		o.prev, o.last = o.last, 0
	default:
		o.prev, o.last = 0, 0
	}
	if !touched {
		o.reach = o.prev
	}
	o.at = at
}

// used notes an admitted request.
func (o *oracle) used() { o.last++; o.reach++ }

// must says that a request at some moment of the window, under some quota, has room wherever
// the instance's clock is in its spread.
func (o *oracle) must(elapsed, quota spread, touched bool) bool {
	if touched {
		return o.reach+1 <= quota.least
	}
	return room(o.prev, o.last, elapsed.least, quota.least)
}

// may says that it can have room. Where clocks are wrong by far that is no question of one
// client: see [book].
func (o *oracle) may(elapsed, quota spread, touched bool) bool {
	return touched || room(o.prev, o.last, elapsed.most, quota.most)
}

// room is the rule: the last window weighs as much as is left of it.
func room(prev, last, elapsed, quota int64) bool {
	return prev*(window-elapsed)+(last+1)*window <= quota*window
}
