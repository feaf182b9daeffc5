// SPDX-License-Identifier: Apache-2.0

package court

import (
	"sync"
	"time"

	"github.com/tallystick/tallystick/proof/truth"
)

// Terms are what a policy promises, as far as a verdict asks. Its times are in seconds.
type Terms struct {
	Window, Burst int64 // Burst is a bucket's burst, and 0 where windows are counted
	Fixed         bool
	Quota         *Quotas
	Sold          bool // an address has no tally for nothing, or not always: it has what it buys
	Each          bool // each request needs a proof, and is refused without one whatever has room
	Hears         bool // a request may wait in vain for peers
	Wrong         *Terms
	Exact         bool // a counter decides, for all instances
}

// A tally of a policy is an address's free one, one from its waiting room, or a bought one.
type tally struct {
	policy string
	part   part
	of     string // the address, or what the token of a bought one says
}

// A part is where a tally comes from. Each has a bound of its own.
type part string

const (
	shared part = ""
	bought part = "bought"
	waited part = "waited"
	wrong  part = "failed" // what a limit of failures counts
)

// used is what a tally has used.
type used struct {
	kind       string // of its client
	by         map[place]int64
	unanswered map[int64]int64 // by the window
	underway   int64
	mark       int64           // of a bucket, in microseconds: when it is empty again
	most       map[int64]int64 // by the window: the highest quota meanwhile
	ends       int64           // its tokens, in seconds; 0 for never
	inherited  bool            // it has begun with a count of others, somewhere
}

// A place is an instance and a window of its clock.
type place struct {
	instance int
	window   int64
}

// everywhere is the instance of a policy that has one count for all.
const everywhere = -1

// in returns how many may have been charged in a window.
func (u *used) in(window int64) int64 { return u.known(window) + u.unanswered[window] }

func (u *used) known(window int64) (n int64) {
	for at, m := range u.by {
		if at.window == window {
			n += m
		}
	}
	return n
}

// all is how many may have been charged in all windows.
func (u *used) all() (n int64) {
	for _, m := range u.by {
		n += m
	}
	for _, m := range u.unanswered {
		n += m
	}
	return n
}

// room reports whether one more has room at some moment of an instance, whatever the quota is meanwhile.
func (u *used) room(t *Terms, at, apart int64, quota Spread, touched bool) bool {
	if touched {
		return t.Burst == 0 && u.all()+u.underway < quota.Least
	}
	if t.Burst > 0 {
		owed := u.mark - (at-apart)*1e6
		return u.underway == 0 && t.bucket(quota.Least).Fits(owed, 1) && t.bucket(quota.Most).Fits(owed, 1)
	}
	return t.fits(at, quota.Least, u.in(at/t.Window-1), u.in(at/t.Window)+u.underway)
}

// may reports whether one more can have room.
func (u *used) may(t *Terms, at int64, quota Spread) bool {
	return t.fits(at, quota.Most, u.known(at/t.Window-1), u.known(at/t.Window))
}

func (t *Terms) fits(at, quota, before, now int64) bool {
	if t.Fixed {
		before = 0
	}
	return truth.Window{Quota: quota, Length: t.Window}.Fits(at%t.Window, before, now, 1)
}

func (t *Terms) bucket(quota int64) truth.Bucket {
	return truth.Bucket{Quota: quota, Window: t.Window * 1e6, Burst: t.Burst}
}

// permitted is how many seconds clocks may differ by.
const permitted = 5

// owe charges a bucket.
func (u *used) owe(t *Terms, at int64, quota Spread) {
	if t.Burst > 0 {
		u.mark = max(u.mark, at*1e6) + t.bucket(quota.Least).Interval()
	}
}

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
