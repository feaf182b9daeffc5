// Package exacttest tells whether a counter counts exactly. Whoever implements
// [exact.Counter] runs it in a test of its own:
//
//	func TestCounter(t *testing.T) {
//		clock := exacttest.NewClock()
//		err := exacttest.TestCounter(func() (exact.Counter, error) { return newCounter(clock.Now) }, clock)
//		if err != nil {
//			t.Fatal(err)
//		}
//	}
//
// It cannot tell what a counter keeps when its engine fails: that is for tests that
// know how to make it fail.
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

// TestCounter opens counters, each for one check, and returns everything that is
// wrong with them, joined. clock is the one they go by; nil for counters of an
// engine with a clock of its own, where the checks that need time to pass are left
// out. The counters may share what they count in: no two checks use the same keys.
// A counter that has a Close method is closed.
func TestCounter(open func() (exact.Counter, error), clock *Clock) error {
	var errs []error
	for _, check := range []struct {
		name   string
		timely bool // needs the clock
		run    func(*run) error
	}{
		{"exact on a hot key", false, hotKey},
		{"exact on many keys", false, manyKeys},
		{"all limits or none", false, allOrNone},
		{"costs", false, costs},
		{"peek charges nothing", false, peek},
		{"policies count apart", false, policiesApart},
		{"an ID is counted once", false, ids},
		{"an ID is counted once, at once", false, idsAtOnce},
		{"calls in one go", false, batches},
		{"a refund is given once", false, refunds},
		{"a refund of a part", false, partRefunds},
		{"mistaken calls", false, mistakes},
		{"a context that has ended", false, ended},
		{"a larger quota applies at once", false, upgrade},
		{"every algorithm is that of storeless", true, algorithms},
		{"a sliding log is a log", true, slidingLog},
		{"a rolling day is never over", true, rollingDay},
		{"what a trail says when", true, trailWaits},
		{"a refund in its own window", true, lateRefunds},
		{"a clock that steps back", true, stepBack},
	} {
		if check.timely && clock == nil {
			continue
		}
		if err := one(open, clock, check.name, check.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(errs...)
}

// A run is one check of one counter.
type run struct {
	exact.Counter
	clock *Clock
	name  string
}

var runs atomic.Int64 // keeps the keys of checks apart

func one(open func() (exact.Counter, error), clock *Clock, name string, check func(*run) error) (err error) {
	c, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if closer, ok := c.(interface{ Close() error }); ok {
		defer func() {
			if e := closer.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("close: %w", e))
			}
		}()
	}
	return check(&run{c, clock, fmt.Sprintf("exacttest-%d-%d", time.Now().UnixNano(), runs.Add(1))})
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

// long is a window whose end no check meets.
const long = 365 * 24 * time.Hour

func (r *run) take(p *exact.Policy, key string, cost int64) (exact.Verdict, error) {
	return r.Take(context.Background(), exact.Call{Key: key, Cost: cost, Policy: p})
}

// want says what is wrong with the next call, if anything.
func (r *run) want(p *exact.Policy, key string, cost int64, admitted bool, remaining ...int64) error {
	v, err := r.take(p, key, cost)
	if err != nil {
		return err
	}
	if v.Admitted != admitted {
		return fmt.Errorf("a call of cost %d: admitted is %t, want %t", cost, v.Admitted, admitted)
	}
	for i, n := range remaining {
		if v.Limits[i].Remaining != n {
			return fmt.Errorf("a call of cost %d: limit %d has %d remaining, want %d", cost, i, v.Limits[i].Remaining, n)
		}
	}
	return nil
}

// flood makes attempts from many goroutines and returns how many were admitted.
func (r *run) flood(attempts int, call func(n int) exact.Call) (int64, error) {
	const workers = 32
	var admitted atomic.Int64
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := w; n < attempts; n += workers {
				v, err := r.Take(context.Background(), call(n))
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
	return admitted.Load(), errors.Join(errs...)
}
