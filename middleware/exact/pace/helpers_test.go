package pace_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

func meter(quota int64, window time.Duration) []storeless.Limit {
	return []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: quota, Window: window}}
}

func bucket(quota int64, window time.Duration, burst int64) []storeless.Limit {
	return []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: quota, Window: window, Burst: burst}}
}

// process returns the pacer of one more process that shares a counter.
func process(t testing.TB, cfg pace.Config) *pace.Pacer {
	t.Helper()
	cfg.Name = cmp.Or(cfg.Name, "models")
	p, err := pace.New(cfg)
	require.NoError(t, err)
	return p
}

// left returns how much of a limit of a unit is left, "" for requests.
func left(t *testing.T, c exact.Counter, unit string, limits []storeless.Limit) int64 {
	t.Helper()
	name := "models"
	if unit != "" {
		name += "-" + unit
	}
	p, err := exact.Compile(name, limits)
	require.NoError(t, err)
	v, err := c.Peek(t.Context(), exact.Call{Key: "models", Cost: 1, Policy: p})
	require.NoError(t, err)
	return v.Limits[0].Remaining
}

// A log is when calls went, and how long each had waited.
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
	for i, from := range l.went {
		sum := int64(0)
		for j, at := range l.went {
			if !at.Before(from) && at.Before(from.Add(window)) {
				sum += l.costs[j]
			}
		}
		most = max(most, sum)
		_ = i
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

// A line is a counter whose calls take some time, are counted, and can be made to fail.
type wire struct {
	exact.Counter
	trip time.Duration

	mu      sync.Mutex
	calls   int
	takes   int
	refunds int
	lose    int   // so many answers
	fail    error // if set, instead of a call
	hang    bool  // until the end of the context
}

var errLost = errors.New("the answer is lost")

func (w *wire) travel(ctx context.Context, count *int) error {
	w.mu.Lock()
	w.calls++
	*count++
	fail, hang := w.fail, w.hang
	w.mu.Unlock()
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
	if w.lose > 0 {
		w.lose--
		return exact.Verdict{}, errLost
	}
	return v, err
}

func (w *wire) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := w.travel(ctx, new(int)); err != nil {
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
