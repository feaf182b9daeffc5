// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A run is one check of one counter. Its first failure ends it: see [run.fail].
type run struct {
	exact.Counter
	clock *Clock
	name  string
	where string // in the check

	another    func() (exact.Counter, error)
	loseAnswer func(exact.Counter)
}

// wrong is a finding of a check.
type wrong struct{ error }

// fail ends the check.
func (r *run) fail(format string, args ...any) {
	panic(wrong{fmt.Errorf("%s%w", r.where, fmt.Errorf(format, args...))})
}

// in is the run, for what is said of a place in its check.
func (r *run) in(format string, args ...any) *run {
	there := *r
	there.where += fmt.Sprintf(format, args...) + ": "
	return &there
}

// no ends the check if there is an error.
func (r *run) no(err error) {
	if err != nil {
		r.fail("%w", err)
	}
}

// found runs a check, and returns what it has found.
func found(check func()) (err error) {
	defer func() {
		if is := recover(); is != nil {
			w, ours := is.(wrong)
			if !ours {
				panic(is)
			}
			err = w.error
		}
	}()
	check()
	return nil
}

// open opens a counter, and returns what closes it.
func (r *run) open() (c exact.Counter, done func() error) {
	c, err := r.another()
	r.in("open").no(err)
	return c, func() error {
		if closer, ok := c.(interface{ Close() error }); ok {
			return found(func() { r.in("close").no(closer.Close()) })
		}
		return nil
	}
}

// key returns a key of this run alone.
func (r *run) key(n int) string { return r.name + "-" + strconv.Itoa(n) }

// policy compiles limits of ours.
func policy(limits ...storeless.Limit) *exact.Policy {
	p, err := exact.Compile("exacttest", limits)
	if err != nil {
		panic(err) // the limits are ours
	}
	return p
}

func fixed(quota int64, window time.Duration) storeless.Limit {
	return storeless.Limit{Algorithm: storeless.FixedWindow, Quota: quota, Window: window}
}

func calendar(quota int64, unit, zone string) storeless.Limit {
	return storeless.Limit{Name: "calendar", Quota: quota, Calendar: unit, Zone: zone}
}

const day = 24 * time.Hour

// long is a window whose end no check meets.
const long = 365 * 24 * time.Hour

// call makes a call that must be answered.
func (r *run) call(call exact.Call) exact.Verdict {
	v, err := r.Take(context.Background(), call)
	r.no(err)
	return v
}

// look peeks, and must be answered.
func (r *run) look(call exact.Call) exact.Verdict {
	v, err := r.Peek(context.Background(), call)
	r.no(err)
	return v
}

func (r *run) take(p *exact.Policy, key string, cost int64) exact.Verdict {
	return r.call(exact.Call{Key: key, Cost: cost, Policy: p})
}

// back gives back what must be given.
func (r *run) back(receipt exact.Receipt) { r.no(r.Refund(context.Background(), receipt)) }

// gone checks that there is nothing to give back.
func (r *run) gone(receipt exact.Receipt) {
	if err := r.Refund(context.Background(), receipt); !errors.Is(err, exact.ErrNoRefund) {
		r.fail("%v, want ErrNoRefund", err)
	}
}

// want checks the next call.
func (r *run) want(p *exact.Policy, key string, cost int64, admitted bool, remaining ...int64) {
	v := r.take(p, key, cost)
	if v.Admitted != admitted {
		r.fail("a call of cost %d: admitted is %t, want %t", cost, v.Admitted, admitted)
	}
	for i, n := range remaining {
		if v.Limits[i].Remaining != n {
			r.fail("a call of cost %d: limit %d has %d remaining, want %d", cost, i, v.Limits[i].Remaining, n)
		}
	}
}

// flood makes attempts from many goroutines and returns how many were admitted.
func (r *run) flood(attempts int, call func(n int) exact.Call) int64 {
	const workers = 32
	var admitted, next atomic.Int64
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(attempts); n = next.Add(1) { // in turn: none is far behind the others
				v, err := r.Take(context.Background(), call(int(n-1)))
				if err != nil {
					errs[w] = err
					return
				}
				if v.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	r.no(errors.Join(errs...))
	return admitted.Load()
}

// A Clock is moved by hand. It starts at a boundary of all windows that divide a
// day. Safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// NewClock returns a clock that stands still.
func NewClock() *Clock { return new(Clock) }

// Now returns the time.
func (c *Clock) Now() time.Time {
	return time.Unix(20_000*86_400, 0).Add(time.Duration(c.offset.Load()))
}

// Advance moves the clock, back if by is negative.
func (c *Clock) Advance(by time.Duration) { c.offset.Add(int64(by)) }
