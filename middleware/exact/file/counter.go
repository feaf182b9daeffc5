// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Config says how a counter counts. Its zero value is good.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Keys is for how many live keys there is room. A call for one more fails with
	// [exact.ErrFull]; so does one when the disk is full, while keys that are live are
	// counted on in the room that was reserved for them, and then they too, until the
	// disk has room again. Default: 1,048,576. One of one limit takes some 120 bytes of memory, and twice 60 of
	// the file at most.
	Keys int64

	// Now is the clock, [time.Now] by default. A clock that steps back is held at
	// the last charge of the key.
	Now func() time.Time
}

const defaultKeys = 1 << 20

var (
	// ErrInUse says that another process, or another counter of this one, has the
	// file open.
	ErrInUse = errors.New("file: another counter has it open; only one process can count in a file, several want a server such as exact/redis")

	// ErrDamaged says that a file is not as it was written. Counting in it would
	// give away quotas that are spent.
	ErrDamaged = errors.New("file: damaged, or never a file of counts; restore a copy, or remove it if it was one and every count in it may begin at zero")

	// ErrFixed says that the file cannot be replaced by a smaller one, so that it would grow
	// without end: it is mounted by itself, or the program may not make files beside it.
	ErrFixed = errors.New("file: it cannot be replaced by another; give it a directory of its own, mounted as a whole, in which the program may make, rename and remove files")

	// ErrStopped says that a counter has stopped for good: because it was closed,
	// because its file has lost its name to another, or because a write has failed,
	// after which nobody knows what the disk holds (see "Can Applications Recover from
	// fsync Failures?", ATC 2020). A full disk is no such failure, see [Config.Keys].
	// It is [exact.ErrNotCounted]. A counter that is opened anew counts on from what
	// the disk holds.
	ErrStopped = fmt.Errorf("%w: file: the counter has stopped", exact.ErrNotCounted)
)

// A counter is what [Open] returns.
type counter struct {
	disk     disk
	path     string
	now      func() time.Time
	keys     int
	spare    int64 // how much larger than its accounts a file may be
	accounts *accounts

	mu        sync.Mutex
	waiting   []*job
	writing   bool
	shrinking bool
	next      *next // a smaller file, for the one that writes
	failed    error // a write has, and nobody knows what the disk holds
	closed    bool
	idle      chan struct{} // closed when the last goroutine of a closed counter is done
	quit      chan struct{} // closed when it is closed

	// Of the one goroutine that writes.
	log      *log
	replies  exact.Idempotency
	scratch  []byte
	searched int64 // Unix second of the last search for idle accounts
	tight    bool  // the disk was full
	asked    int64 // Unix second at which
	stuck    error // why it could not be made smaller; nil: it could
	again    int64 // how large the file is when that is tried again
	tried    int64 // minute since 1970 of the last attempt
}

// Take implements [exact.Counter].
func (c *counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	id := call.ID
	call.ID = "" // which is remembered beside the account: on disk it would cost every call
	o := c.do(&job{ctx: ctx, name: call.Policy.AccountName(call.Key), call: &call, id: id})
	return o.verdict, o.err
}

// Refund implements [exact.Counter].
func (c *counter) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return c.do(&job{ctx: ctx, name: r.Policy.AccountName(r.Key), receipt: &r}).err
}

// Peek implements [exact.Counter]. It sees what is on disk.
func (c *counter) Peek(ctx context.Context, call exact.Call) (v exact.Verdict, err error) {
	if err := call.Check(ctx); err != nil {
		return v, err
	}
	c.mu.Lock()
	err = c.stopped()
	c.mu.Unlock()
	if err != nil {
		return v, err
	}
	a, _, err := c.accounts.load(call.Policy.AccountName(call.Key))
	if err != nil {
		return v, fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return a.Peek(c.now(), &call), nil
}

// Close waits for what is being written, and closes the file. Calls after it fail with
// [ErrStopped].
func (c *counter) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.idle = make(chan struct{})
	close(c.quit)
	c.left()
	c.mu.Unlock()
	<-c.idle
	var err error
	if c.log.f != nil {
		err = c.log.f.Close()
	}
	return errors.Join(err, c.disk.Unlock())
}

// left lets Close go on when nothing of a closed counter runs any more. c.mu is held.
func (c *counter) left() {
	if c.closed && !c.writing && !c.shrinking {
		close(c.idle)
	}
}

// stopped says why no call can be taken any more. c.mu is held.
func (c *counter) stopped() error {
	if c.failed == nil && c.closed {
		return fmt.Errorf("%w: it was closed", ErrStopped)
	}
	return c.failed
}

// A job is a call that waits to be written.
type job struct {
	ctx     context.Context
	name    string
	call    *exact.Call    // without its ID; or
	id      string         // of the call
	receipt *exact.Receipt // of a refund; or
	account *exact.Account // to be restored, or one that has counted nothing
	done    chan outcome   // of one
}

type outcome struct {
	verdict exact.Verdict
	err     error
	kept    bool // its ID, while it was decided
}

// do has a job done, or gives up when its context ends.
func (c *counter) do(j *job) outcome {
	j.done = make(chan outcome, 1)
	c.mu.Lock()
	if err := c.stopped(); err != nil {
		c.mu.Unlock()
		return outcome{err: err}
	}
	c.waiting = append(c.waiting, j)
	if !c.writing {
		c.writing = true
		go c.write()
	}
	c.mu.Unlock()
	select {
	case o := <-j.done:
		return o
	case <-j.ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, j); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		return outcome{err: fmt.Errorf("%w: %w", exact.ErrNotCounted, j.ctx.Err())}
	}
	return outcome{err: fmt.Errorf("%w: %w", exact.ErrMaybeCounted, j.ctx.Err())}
}
