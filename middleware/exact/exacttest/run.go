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

// A run is one check of one counter.
type run struct {
	exact.Counter
	clock *Clock
	name  string

	another    func() (exact.Counter, error)
	loseAnswer func(exact.Counter)
}

// open opens a counter, and returns what closes it.
func (r *run) open() (c exact.Counter, done func() error, err error) {
	if c, err = r.another(); err != nil {
		return nil, nil, fmt.Errorf("open: %w", err)
	}
	return c, func() error {
		closer, ok := c.(interface{ Close() error })
		if !ok {
			return nil
		}
		if err := closer.Close(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
		return nil
	}, nil
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
