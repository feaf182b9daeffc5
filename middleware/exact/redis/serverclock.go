// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"sync"
	"time"
)

// keeps is the least time for which a serverClock uses an answer. Clocks drift by some
// 50 µs in a second: by a millisecond in twice that.
const keeps = 10 * time.Second

// A serverClock estimates a server's time from its answers, never too early: an answer
// tells a time after the call was sent. The smallest of the recent differences is the
// best bound. It uses the local monotonic clock, which cannot be set.
type serverClock struct {
	mu    sync.Mutex
	began time.Time
	now   ahead
	older ahead // of the time before
}

// ahead is how far a server's time, in µs since 1970, is ahead of the µs since the clock
// began.
type ahead struct {
	us    int64
	since time.Time
	known bool
}

// saw notes that the server's time was us at some moment after a call was sent. wrong
// discards what was known.
func (c *serverClock) saw(us int64, sent time.Time, wrong bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began.IsZero() {
		c.began = sent
	}
	seen := ahead{us - sent.Sub(c.began).Microseconds(), sent, true}
	switch age := sent.Sub(c.now.since); {
	case wrong || !c.now.known || age > 2*keeps:
		c.now, c.older = seen, ahead{}
	case age > keeps:
		c.now, c.older = seen, c.now
	default:
		c.now.us = min(c.now.us, seen.us)
	}
}

// at returns the least time of the server at a moment, or 0 if unknown.
func (c *serverClock) at(now, t time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now.known || now.Sub(c.now.since) > 2*keeps {
		return 0
	}
	us := c.now.us
	if c.older.known {
		us = min(us, c.older.us)
	}
	return us + t.Sub(c.began).Microseconds()
}
