// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

type limits = []storeless.Limit

func meter(quota int64, window time.Duration) limits {
	return limits{{Algorithm: storeless.LeakyBucket, Quota: quota, Window: window}}
}

func bucket(quota int64, window time.Duration, burst int64) limits {
	return limits{{Algorithm: storeless.TokenBucket, Quota: quota, Window: window, Burst: burst}}
}

// process returns the pacer of one more process that shares a counter.
func process(t testing.TB, cfg pace.Config) *pace.Pacer {
	t.Helper()
	cfg.Name = cmp.Or(cfg.Name, "models")
	return kit.Must(pace.New(cfg))(t)
}

// left returns how much of a limit of a unit is left, "" for requests.
func left(t *testing.T, c exact.Counter, unit string, of limits) int64 {
	t.Helper()
	name := "models"
	if unit != "" {
		name += "-" + unit
	}
	p := kit.Must(exact.Compile(name, of))(t)
	v := kit.Must(c.Peek(t.Context(), exact.Call{Key: "models", Cost: 1, Policy: p}))(t)
	return v.Limits[0].Remaining
}

type log struct {
	mu    sync.Mutex
	went  []time.Time
	costs []int64
	waits []time.Duration
	names []string
}

// call waits for one call, and writes it down if it went.
func (l *log) call(ctx context.Context, p *pace.Pacer, name string, costs ...pace.Cost) error {
	came := time.Now()
	if err := p.Wait(ctx, costs...); err != nil {
		return err
	}
	n := int64(1)
	for _, c := range costs {
		n = c.N
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.went = append(l.went, time.Now())
	l.costs = append(l.costs, n)
	l.waits = append(l.waits, time.Since(came))
	l.names = append(l.names, name)
	return nil
}

// most returns the most that went in any span of a window, its end not included.
func (l *log) most(window time.Duration) (most int64) {
	for _, from := range l.went {
		sum := int64(0)
		for j, at := range l.went {
			if !at.Before(from) && at.Before(from.Add(window)) {
				sum += l.costs[j]
			}
		}
		most = max(most, sum)
	}
	return most
}

func (l *log) mean() (mean time.Duration) {
	for _, w := range l.waits {
		mean += w / time.Duration(len(l.waits))
	}
	return mean
}

func (l *log) longest() time.Duration { return slices.Max(l.waits) }

// A wire is a counter whose calls take some time, are counted, and can be made to fail.
type wire struct {
	exact.Counter
	trip time.Duration

	calls, takes, refunds atomic.Int64

	mu    sync.Mutex
	lose  int        // this number of answers
	loses *rand.Rand // one call in 30, and one answer; nil: none
	fail  error      // if set, instead of a call
	hang  bool       // until the end of the context
}

var errLost = errors.New("the answer is lost")

func (w *wire) travel(ctx context.Context, count *atomic.Int64) error {
	w.calls.Add(1)
	count.Add(1)
	w.mu.Lock()
	fail, hang, lost := w.fail, w.hang, w.loses != nil && w.loses.IntN(30) == 0
	w.mu.Unlock()
	if lost {
		return errLost
	}
	if fail != nil {
		return fail
	}
	if hang {
		<-ctx.Done()
		return errLost
	}
	time.Sleep(w.trip)
	return nil
}

func (w *wire) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := w.travel(ctx, &w.takes); err != nil {
		return exact.Verdict{}, err
	}
	v, err := w.Counter.Take(ctx, call)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lose > 0 || w.loses != nil && w.loses.IntN(30) == 0 {
		w.lose = max(0, w.lose-1)
		return exact.Verdict{}, errLost
	}
	return v, err
}

func (w *wire) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := w.travel(ctx, new(atomic.Int64)); err != nil {
		return exact.Verdict{}, err
	}
	return w.Counter.Peek(ctx, call)
}

func (w *wire) Refund(ctx context.Context, r exact.Receipt) error {
	if err := w.travel(ctx, &w.refunds); err != nil {
		return err
	}
	return w.Counter.Refund(ctx, r)
}

func (w *wire) set(f func(*wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}
