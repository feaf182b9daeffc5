// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// paced is the pacer of each worker: ten calls a second. A counter on a busy machine may be late.
func paced(c exact.Counter) pace.Config {
	return pace.Config{
		Counter:  c,
		Name:     "paced",
		Limits:   []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}},
		Deadline: time.Minute,
	}
}

// A scene is how many workers run for how long, and when the service says how long it wants to be left alone.
type scene struct {
	workers             int
	runs, refuses, wait time.Duration
}

// Paced has workers call a service: fifty for a minute in a long run, else a few for some seconds. Each has a
// pacer of its own and opens the counter for itself, as a process does: pacers share nothing but the server of their
// counter. In the middle of it the service refuses once, with a Retry-After.
func Paced(t *testing.T, where string, open func(where string) (exact.Counter, error)) {
	t.Helper()
	s := scene{workers: 6, runs: 4 * time.Second, refuses: time.Second, wait: time.Second}
	if kit.Long() {
		s = scene{workers: 50, runs: time.Minute, refuses: 20 * time.Second, wait: 10 * time.Second}
	}
	l := &limited{refuses: s.refuses, wait: s.wait}
	service := httptest.NewServer(l)
	defer service.Close()
	counters := make([]exact.Counter, s.workers)
	for i := range counters {
		counters[i] = kit.Must(open(where))(t)
	}
	booked, waits := &booked{at: map[string]time.Time{}}, make([][]time.Duration, s.workers)
	ctx, cancel := context.WithTimeout(t.Context(), s.runs)
	defer cancel()
	kit.Together(s.workers, func(i int) {
		var err error
		if waits[i], err = work(ctx, noting{counters[i], booked}, service.URL); err != nil {
			t.Errorf("a worker: %v", err)
		}
	})
	l.judge(t, s, booked.moments(), slices.Concat(waits...))
	leftNothing(t, counters[0], l.said.Add(s.wait))
}

// work calls a service again and again until the context ends, and returns how long each call waited.
func work(ctx context.Context, counter exact.Counter, service string) (waits []time.Duration, err error) {
	p, err := pace.New(paced(counter))
	if err != nil {
		return nil, err
	}
	var came time.Time
	calls := &http.Client{Transport: &pace.Transport{Pacer: p, Base: before(func() { waits = append(waits, time.Since(came)) })}}
	for {
		came = time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, service, nil)
		if err != nil {
			return nil, err
		}
		resp, err := calls.Do(req)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return waits, nil
		case err != nil:
			return nil, err
		}
		_ = resp.Body.Close()
	}
}

// before is a transport that says when it sends.
type before func()

func (f before) RoundTrip(r *http.Request) (*http.Response, error) {
	f()
	return http.DefaultTransport.RoundTrip(r)
}

// booked are the moments that are booked of some counters and not given back, by the clocks of these.
type booked struct {
	mu sync.Mutex
	at map[string]time.Time // by serial
}

// moments returns them in order.
func (b *booked) moments() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.at), time.Time.Compare)
}

// A noting counter notes its bookings.
type noting struct {
	exact.Counter
	b *booked
}

func (n noting) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := n.Counter.Take(ctx, call)
	if err == nil && v.Admitted && call.Cost > 0 {
		n.b.mu.Lock()
		defer n.b.mu.Unlock()
		n.b.at[v.Receipt.Serial] = v.Receipt.At.Truncate(time.Microsecond) // as accounts keep it
	}
	return v, err
}

// Refund notes it before it asks: once the counter has it back, another may have booked the same moment.
func (n noting) Refund(ctx context.Context, r exact.Receipt) error {
	n.b.mu.Lock()
	delete(n.b.at, r.Serial)
	n.b.mu.Unlock()
	return n.Counter.Refund(ctx, r)
}

// A limited service writes down when it is called.
type limited struct {
	refuses, wait time.Duration

	mu    sync.Mutex
	calls []time.Time
	said  time.Time // when it refused
}

func (l *limited) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.calls = append(l.calls, now)
	if l.said.IsZero() && now.Sub(l.calls[0]) > l.refuses {
		l.said = now
		w.Header().Set("Retry-After", fmt.Sprint(int(l.wait.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// judge says what was booked, and what the service saw of it. The moments are judged to the
// microsecond, and no call may come before its moment. Later it may, by what a scheduler and a
// network take, and so two may come closer together than they were booked: that is logged, and
// no test judges it. A long run judges what came after the service had refused, and how long a call waited.
func (l *limited) judge(t *testing.T, s scene, moments []time.Time, waits []time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, len(l.calls), s.workers)
	require.False(t, l.said.IsZero(), "the service has refused")
	require.GreaterOrEqual(t, len(moments), len(l.calls))
	require.LessOrEqual(t, mostInASecond(moments), 10, "booked for a second")
	for i, at := range l.calls { // their clocks are read one after the other
		require.False(t, at.Before(moments[i].Add(-time.Millisecond)), "call %d came %s before its moment", i, moments[i].Sub(at))
	}
	tooLate := 0
	for _, at := range l.calls {
		if since := at.Sub(l.said); since > time.Second && since < s.wait {
			tooLate++
		}
	}
	mean, longest := time.Duration(0), slices.Max(waits)
	for _, w := range waits {
		mean += w / time.Duration(len(waits))
	}
	t.Logf("%d workers: %d calls, most seen in a second %d; waits: mean %s, longest %s; %d came more than a second after a refusal",
		s.workers, len(l.calls), mostInASecond(l.calls), mean.Round(time.Millisecond), longest.Round(time.Millisecond), tooLate)
	if kit.Long() {
		require.Zero(t, tooLate)
		require.LessOrEqual(t, longest, 2*mean+s.wait+s.wait/10, "a call that waits in the pause waits for that besides")
	}
}

// mostInASecond returns how many lie in any second, its end not included.
func mostInASecond(at []time.Time) (most int) {
	for i, from := range at {
		n, _ := slices.BinarySearchFunc(at, from.Add(time.Second), time.Time.Compare)
		most = max(most, n-i)
	}
	return most
}

// leftNothing fails if what the calls booked that were cancelled at the end stays charged. Their pacers give
// it back, or it leaks out: nothing is ahead but the pause, where the service was late to want one.
func leftNothing(t *testing.T, counter exact.Counter, paused time.Time) {
	t.Helper()
	v := Peek(t, counter, exact.Call{Key: "paced", Cost: 1, Policy: Compile(t, paced(counter).Limits...), Ahead: exact.MaxAhead})
	require.LessOrEqual(t, v.Wait, time.Second+max(0, time.Until(paused)), "the next call would wait behind calls that are no more")
}
