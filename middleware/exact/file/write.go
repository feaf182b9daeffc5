package file

import (
	"fmt"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tallystick/tallystick/middleware/exact"
)

// maxBatch is how many calls are written together at most: it bounds how long the
// first of them waits.
const maxBatch = 1024

// write writes what waits, until nothing does.
func (c *Counter) write() {
	for {
		// Those who were answered just now may ask again: let them come along.
		runtime.Gosched()
		c.mu.Lock()
		n := min(len(c.waiting), maxBatch)
		if n == 0 {
			c.writing = false
			if c.idle != nil {
				close(c.idle)
			}
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
		outcomes := make([]outcome, n)
		err := guarded(func() error { return c.commit(jobs, outcomes) })
		if err != nil {
			c.mu.Lock()
			c.failed = fmt.Errorf("%w: %w", ErrStopped, err)
			c.mu.Unlock()
		}
		for i, j := range jobs {
			if err != nil {
				outcomes[i] = outcome{err: fmt.Errorf("%w: %w", exact.ErrMaybeCounted, err)}
			}
			j.done <- outcomes[i]
		}
	}
}

// batch are the accounts that a commit is about.
type batch map[string]*entry

type entry struct {
	account exact.Account
	sum     uint64 // of what is stored; 0: nothing is
	changed bool
}

// commit does jobs in order, and stores what they have changed.
func (c *Counter) commit(jobs []*job, outcomes []outcome) error {
	tx, err := c.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	accounts := tx.Bucket(bucketAccounts)
	whole, err := loadWhole(tx)
	if err != nil {
		return err
	}
	now := c.now()
	entries := make(batch, len(jobs))
	for i, j := range jobs {
		e := entries[j.name]
		if e == nil {
			e = new(entry)
			if e.account, e.sum, err = load(accounts, j.name); err != nil {
				return err
			}
			entries[j.name] = e
		}
		outcomes[i] = c.decide(now, j, e, func() bool { return c.room(now, accounts, whole, entries) }, whole)
	}
	written := 0
	for name, e := range entries {
		if !e.changed {
			continue
		}
		if err := store(accounts, name, e, whole); err != nil {
			return err
		}
		written++
	}
	if written == 0 && !whole.changed {
		return nil // refusals write nothing
	}
	if err := c.sweep(now, accounts, whole, entries, 2*written); err != nil {
		return err
	}
	if err := whole.store(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// decide does one job.
func (c *Counter) decide(now time.Time, j *job, e *entry, room func() bool, w *whole) (o outcome) {
	if err := j.ctx.Err(); err != nil {
		o.err = fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
		return o
	}
	if j.receipt != nil {
		if !e.account.Refund(now, j.receipt) {
			o.err = exact.ErrNoRefund
			return o
		}
		e.changed = true
		return o
	}
	if j.call.ID != "" {
		if v, ok := c.replies.Find(now, j.name, j.call.ID); ok {
			o.verdict = e.account.Replay(now, v, j.call)
			return o
		}
	}
	fresh := e.sum == 0 && !e.changed
	if fresh && w.accounts+w.coming >= c.keys && !room() {
		o.err = exact.ErrFull // or the search has met damage, which the commit will meet too
		return o
	}
	o.verdict = e.account.Take(now, j.call)
	if j.call.ID != "" {
		c.replies.Keep(now, j.name, j.call.ID, o.verdict)
	}
	if o.verdict.Admitted {
		e.changed = true
		if fresh {
			w.coming++
		}
	}
	return o
}

// room looks for accounts to forget when there are as many as may be: once a second,
// so that a full file does not cost everybody a search.
func (c *Counter) room(now time.Time, accounts *bolt.Bucket, w *whole, using batch) bool {
	if second := now.Unix(); second != c.full {
		c.full = second
		if err := c.sweep(now, accounts, w, using, 4096); err != nil {
			return false
		}
	}
	return w.accounts+w.coming < c.keys
}

// sweep looks at so many accounts, from where it stopped the last time, and forgets
// those that count nothing any more and that nobody is using.
func (c *Counter) sweep(now time.Time, accounts *bolt.Bucket, w *whole, using batch, look int) error {
	var idle [][]byte
	cursor := accounts.Cursor()
	k, v := cursor.Seek(c.swept)
	for ; look > 0 && k != nil; look-- {
		a, _, err := decode(k, v)
		if err != nil {
			return err
		}
		if a.Idle(now) && using[string(k)] == nil {
			idle = append(idle, append([]byte(nil), k...))
		}
		k, v = cursor.Next()
	}
	c.swept = append(c.swept[:0], k...) // from the beginning, after the end
	for _, k := range idle {
		if err := remove(accounts, k, w); err != nil {
			return err
		}
	}
	return nil
}
