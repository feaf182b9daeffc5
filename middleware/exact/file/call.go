// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/middleware/exact"
)

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
