// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

const (
	// maxBatch is how many calls are written together at most, and maxGroup how many
	// bytes, but for the last account: they bound how long the first of them waits.
	maxBatch = 1024
	maxGroup = 1 << 20
)

// write writes what waits, until nothing does.
func (c *counter) write() {
	for {
		// Those who were answered just now may ask again: let them come along, as long as
		// more do. Who is alone waits for nobody.
		for n := -1; ; {
			runtime.Gosched()
			c.mu.Lock()
			if len(c.waiting) <= n || len(c.waiting) >= maxBatch {
				break
			}
			n = len(c.waiting)
			c.mu.Unlock()
		}
		if next := c.next; next != nil {
			c.next = nil
			give := c.failed != nil || c.closed
			c.mu.Unlock()
			c.adopt(next, give)
			continue
		}
		n := min(len(c.waiting), maxBatch)
		if n == 0 {
			c.writing = false
			c.left()
			c.mu.Unlock()
			return
		}
		jobs := c.waiting[:n:n]
		c.waiting = c.waiting[n:]
		failed := c.failed // what waited when it was closed is still written
		c.mu.Unlock()
		if failed != nil {
			for _, j := range jobs {
				j.done <- outcome{err: failed}
			}
			continue
		}
		done := c.commit(jobs)
		if done < n { // the group was full
			c.mu.Lock()
			c.waiting = append(append(make([]*job, 0, n-done+len(c.waiting)), jobs[done:]...), c.waiting...)
			c.mu.Unlock()
		}
	}
}

// stop lets no call in any more.
func (c *counter) stop(err error) error {
	if !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	return err
}

type batch struct {
	entries  map[string]*entry
	order    []*entry // in which they were asked for
	outcomes []outcome
	coming   int // accounts that it adds
	bytes    int
}

type entry struct {
	name    string
	account exact.Account
	known   bool // it is on disk
	changed bool
	asked   []int // jobs
}

// commit does jobs in order, as many as fit into a group, and answers them when what they
// have changed is on disk. It returns how many it has answered.
func (c *counter) commit(jobs []*job) (n int) {
	now := c.now()
	c.accounts.see(now)
	b := &batch{entries: make(map[string]*entry, min(len(jobs), 64))}
	err := c.here()
	for n < len(jobs) && b.bytes < maxGroup && err == nil {
		if err = c.one(now, b, jobs[n], n); err == nil {
			n++
		}
	}
	changed, err := c.store(now, b, err)
	switch {
	case errors.Is(err, errNoRoom), errors.Is(err, errStuck):
		c.undo(b, jobs, fmt.Errorf("%w: %w", exact.ErrFull, err))
	case err != nil:
		stopped := c.stop(err)
		if !errors.Is(err, ErrStopped) { // it had begun to write
			stopped = fmt.Errorf("%w: %w", exact.ErrMaybeCounted, err)
		}
		n, b.outcomes = len(jobs), make([]outcome, len(jobs))
		for i := range b.outcomes {
			b.outcomes[i].err = stopped
		}
	default:
		c.accounts.put(changed...)
	}
	for i := range n {
		jobs[i].done <- b.outcomes[i]
	}
	if len(changed) > 0 && err == nil {
		c.accounts.sweep(len(changed)+1, func(string) bool { return false })
	}
	if len(changed) > 0 && err == nil || c.stuck != nil {
		c.shrinkIfLarge(now)
	}
	return n
}

// here fails if the file does not have its name any more: another counter may be counting
// in the one that has. A directory that cannot be asked says neither.
func (c *counter) here() error {
	if same, err := c.disk.Same(c.path, c.log.f); err == nil && !same {
		return fmt.Errorf("%w: the file was renamed, removed or replaced by another", ErrStopped)
	}
	return nil
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

// decide decides what a job changes, and what its answer is when that is on disk.
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
	if j.id != "" {
		if v, ok := c.replies.Find(now, j.name, j.id); ok {
			o.verdict = e.account.Replay(now, v, j.call)
			return o, nil
		}
	}
	fresh := !e.known && !e.changed
	if fresh {
		full, err := c.full(now, b)
		if o.err = full; full != nil || err != nil {
			return o, err
		}
	}
	o.verdict = e.account.Take(now, j.call)
	if j.id != "" {
		c.replies.Keep(now, j.name, j.id, o.verdict)
		o.kept = true
	}
	if o.verdict.Admitted {
		e.changed = true
		if fresh {
			b.coming++
		}
	}
	return o, nil
}

// full says why there is no room for another account, if there is none.
func (c *counter) full(now time.Time, b *batch) (full, err error) {
	if c.accounts.len()+b.coming >= c.keys {
		// Once a second: that it is full must not cost everybody a search.
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

// ahead keeps room for the accounts that there are, and reports whether there is any for
// others. A full disk is asked again once a second.
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

// store puts on disk what a batch has changed. Refusals change nothing, and write nothing.
func (c *counter) store(now time.Time, b *batch, err error) (changed []account, _ error) {
	if err != nil {
		return nil, err
	}
	c.log.buf = newGroup(c.log.buf)
	for _, e := range b.order {
		if !e.changed {
			continue
		}
		if c.scratch, err = e.account.AppendBinary(c.scratch[:0]); err != nil {
			return nil, err
		}
		c.log.buf = appendAccount(c.log.buf, e.name, c.scratch)
		changed = append(changed, account{e.name, string(c.scratch)})
	}
	if len(changed) == 0 {
		return nil, nil
	}
	if err := c.stuckAt(stuckForAll); err != nil {
		return nil, err
	}
	if _, err := c.ahead(now); err != nil {
		return nil, err
	}
	return changed, c.log.append()
}

// undo takes back what could not be written, and answers those who asked for it.
func (c *counter) undo(b *batch, jobs []*job, err error) {
	for _, e := range b.order {
		if !e.changed {
			continue
		}
		for _, i := range e.asked {
			if o := &b.outcomes[i]; o.err == nil {
				if o.kept {
					c.replies.Forget(e.name, jobs[i].id)
				}
				*o = outcome{err: err}
			}
		}
	}
}
