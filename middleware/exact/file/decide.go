// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

type batch struct {
	entries  map[string]*entry
	order    []*entry // in which they were asked for
	outcomes []outcome
	coming   int // accounts that it adds
	bytes    int
}

type entry struct {
	name    string
	account engine.Account
	known   bool // it is on disk
	changed bool
	asked   []int // jobs
}

// one does one job.
func (c *counter) one(now time.Time, b *batch, j *job, i int) (err error) {
	e := b.entries[j.name]
	if e == nil {
		e = &entry{name: j.name}
		var bytes int
		if e.account, bytes, err = c.accounts.load(j.name); err != nil {
			return err
		}
		e.known = bytes > 0
		b.bytes += bytes
		b.entries[j.name], b.order = e, append(b.order, e)
	}
	b.bytes += 128 // a charge adds less
	e.asked = append(e.asked, i)
	o, err := c.decide(now, b, j, e)
	b.outcomes = append(b.outcomes, o)
	return err
}

// decide decides a job's changes, and its answer once they are on disk.
func (c *counter) decide(now time.Time, b *batch, j *job, e *entry) (o outcome, err error) {
	if err := j.ctx.Err(); err != nil {
		o.err = fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
		return o, nil
	}
	switch {
	case j.receipt != nil:
		o.err = e.account.Refund(now, j.receipt)
		e.changed = e.changed || o.err == nil
		return o, nil
	case j.account != nil:
		return c.replace(now, b, j, e)
	}
	if v, ok := c.replies.Find(now, j.name, j.id); ok {
		o.verdict = e.account.Replay(now, v, j.call)
		return o, nil
	}
	fresh := !e.known && !e.changed
	if fresh {
		full, err := c.full(now, b)
		if o.err = full; full != nil || err != nil {
			return o, err
		}
	}
	o.verdict = e.account.Take(now, j.call)
	c.replies.Keep(now, j.name, j.id, o.verdict)
	o.kept = true
	if o.verdict.Admitted {
		e.changed = true
		if fresh {
			b.coming++
		}
	}
	return o, nil
}

// replace puts the account of a job in place of the one that is there: one that has counted
// nothing, to forget it, in place of any. It is not written again, and gone with the next snapshot.
func (c *counter) replace(now time.Time, b *batch, j *job, e *entry) (o outcome, err error) {
	fresh := !e.known && !e.changed
	switch counts := j.account.Counts(now); {
	case counts && e.account.Counts(now):
		o.err = engine.ErrKept
		return o, nil
	case !counts && (fresh || !j.account.Expires().IsZero()): // there is nothing to forget, or to restore
		return o, nil
	case fresh:
		full, err := c.full(now, b)
		if o.err = full; full != nil || err != nil {
			return o, err
		}
		b.coming++
	}
	e.account, e.changed = *j.account, true
	return o, nil
}

// full returns why there is no room for another account.
func (c *counter) full(now time.Time, b *batch) (full, err error) {
	if c.accounts.len()+b.coming >= c.keys {
		// Once a second: a full counter must not search for each call.
		if second := now.Unix(); second != c.searched {
			c.searched = second
			c.accounts.sweep(maxSearch, func(name string) bool { return b.entries[name] != nil })
		}
		if c.accounts.len()+b.coming >= c.keys {
			return exact.ErrFull, nil
		}
	}
	if stuck := c.stuckAt(stuckForNew); stuck != nil {
		return fmt.Errorf("%w: %w", exact.ErrFull, stuck), nil
	}
	room, err := c.ahead(now)
	if !room {
		full = fmt.Errorf("%w: %w", exact.ErrFull, errNoRoom)
	}
	return full, err
}

// maxSearch is at how many accounts a search for an idle one looks.
const maxSearch = 4096

// ahead keeps room for the present accounts, and reports whether there is room for
// others. It retries a full disk once a second.
func (c *counter) ahead(now time.Time) (room bool, err error) {
	if !c.log.low() {
		return true, nil
	}
	second := now.Unix()
	if c.tight && second == c.asked {
		return false, nil
	}
	err = c.log.reserve(0)
	c.tight, c.asked = errors.Is(err, errNoRoom), second
	if c.tight {
		return false, nil
	}
	return err == nil, err
}
