// SPDX-License-Identifier: Apache-2.0

package court

import (
	"sync"
	"time"
)

// Quotas are what the quota of a policy may be at the moment: while a change goes from
// instance to instance it is one on some and another one on others.
type Quotas struct {
	mu   sync.Mutex
	past []Spread // the last is in force
}

// A Spread is the least and the most that something may be.
type Spread struct{ Least, Most int64 }

// With returns what either may be.
func (s Spread) With(o Spread) Spread { return Spread{min(s.Least, o.Least), max(s.Most, o.Most)} }

// NewQuotas returns the Quotas of a quota that all instances have.
func NewQuotas(quota int64) *Quotas { return &Quotas{past: []Spread{{quota, quota}}} }

// Change says that the quota may become another one from now on; the result is called when it
// has, everywhere.
func (q *Quotas) Change(quota int64) (done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.past = append(q.past, q.past[len(q.past)-1].With(Spread{quota, quota}))
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.past = append(q.past, Spread{quota, quota})
	}
}

// Begin returns a function that says what the quota may have been since.
func (q *Quotas) Begin() (during func() Spread) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := len(q.past) - 1
	return func() Spread {
		q.mu.Lock()
		defer q.mu.Unlock()
		s := q.past[first]
		for _, o := range q.past[first+1:] {
			s = s.With(o)
		}
		return s
	}
}

// ExactWindow returns a window for exact routes. Redis goes by its own clock, which says now: so the window is longer than any
// run, and now is in the middle of one. With one length for all, a run that crosses the end of such a window would find
// its charges gone.
func ExactWindow(now time.Time) time.Duration {
	const most = 365 * 24 * 60 * 60
	whole := (2*now.Unix()/most + 1) / 2 // and a half have passed
	return time.Duration(2*now.Unix()/(2*whole+1)/60*60) * time.Second
}
