// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/judge"
	"github.com/tallystick/tallystick/storeless"
)

// A meter knows what one client has used of some limits, by the clock of the instances. Of a request it knows
// no more than two moments, between which it was decided. It errs in favour of the server: what
// may have been charged was, wherever in between that is worst. It is used by one goroutine at a time.
type meter struct {
	limits []middleware.Limit // the quota of the first one changes
	used   []count
}

// failures is the name of a limit that counts wrong passwords, and what they are called in the book.
const failures = "failed"

// A count is what is used of one limit.
type count struct {
	used []span // of windows
	mark int64  // of a bucket: when it is full again
}

// A span is two moments, in microseconds.
type span struct{ from, to int64 }

func newMeter(policy string) *meter {
	m := &meter{limits: []middleware.Limit{limitOf(policy, 0)}}
	if policy == login {
		m.limits = append(m.limits, middleware.Limit{Name: failures, Quota: failedQuota, Window: window * time.Second})
	}
	m.used = make([]count, len(m.limits))
	return m
}

// spread returns what the quota of a limit may have been.
func (m *meter) spread(limit int, first judge.Spread) judge.Spread {
	if limit == 0 {
		return first
	}
	return judge.Spread{Least: m.limits[limit].Quota, Most: m.limits[limit].Quota}
}

// charge notes a request. Of a limit that counts by outcome it takes something if it is wrong.
func (m *meter) charge(at span, quota judge.Spread, wrong bool) {
	for i := range m.limits {
		c, l := &m.used[i], m.limits[i]
		if l.Name == failures && !wrong {
			continue
		}
		if l.Algorithm == storeless.TokenBucket {
			c.mark = max(c.mark, at.to) + interval(l, m.spread(i, quota).Least)
			continue
		}
		w := l.Window.Microseconds()
		c.used = slices.DeleteFunc(c.used, func(s span) bool { return s.to/w < at.from/w-1 })
		c.used = append(c.used, at)
	}
}

// room reports whether a request had room in all limits, whatever was when.
func (m *meter) room(at span, quota judge.Spread) bool {
	for i := range m.limits {
		if q := m.spread(i, quota); !m.used[i].room(m.limits[i], at, q) {
			return false
		}
	}
	return true
}

func (c *count) room(l middleware.Limit, at span, quota judge.Spread) bool {
	if l.Algorithm == storeless.TokenBucket {
		for _, q := range []int64{quota.Least, quota.Most} {
			if every := interval(l, q); max(c.mark, at.from)+every-at.from > l.Burst*every {
				return false
			}
		}
		return true
	}
	size := l.Window.Microseconds()
	for w := at.from / size; w <= at.to/size; w++ {
		last, elapsed := c.in(w-1, size), max(at.from-w*size, 0)
		if l.Algorithm == storeless.FixedWindow {
			last = 0
		}
		if last*(size-elapsed)+(c.in(w, size)+1)*size > quota.Least*size {
			return false
		}
	}
	return true
}

// in returns how many may have been charged in a window.
func (c *count) in(window, size int64) (n int64) {
	for _, s := range c.used {
		if s.from/size <= window && window <= s.to/size {
			n++
		}
	}
	return n
}

// interval is the time between two requests of a bucket.
func interval(l middleware.Limit, quota int64) int64 {
	return (l.Window.Microseconds() + quota - 1) / quota
}
