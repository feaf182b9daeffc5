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
	// maxBatch bounds the calls that are written together, and maxGroup their bytes,
	// without the last account. Both bound the wait of the first call.
	maxBatch = 1024
	maxGroup = 1 << 20
)

// write writes until no job waits.
func (c *counter) write() {
	for {
		// Callers that were just answered may call again: let them join, as long as more
		// come. A lone caller does not wait.
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

// commit does jobs in order, as many as fit into a group, and answers them when their
// changes are on disk. It returns the number of answers.
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

// undo takes back what could not be written, and answers its callers.
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

// shrinkIfLarge begins to shrink the file, if much of it is not needed. It retries a failure when the
// file has grown, and once a minute.
func (c *counter) shrinkIfLarge(now time.Time) {
	if c.log.end < c.large() || c.log.end < c.again && now.Unix()/60 == c.tried {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.shrinking && !c.closed {
		c.shrinking = true
		like := c.log.f
		go c.shrink(like)
	}
}

// shrink writes a smaller file, and hands it to the goroutine that writes.
func (c *counter) shrink(like handle) {
	n := new(next)
	n.err = c.copy(n, like)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = n
	if !c.writing {
		c.writing = true
		go c.write()
	}
}
