// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/proof/exactkit"
)

var served = remote.Config{Secrets: [][]byte{make([]byte, 32)}}

func open(url string) (exact.Counter, error) { return remote.Open([]string{url}, served) }

// serveCounter serves a counter in memory to other processes, and returns its URL.
func serveCounter(t *testing.T) string {
	h, err := remote.Serve(memory.New(0, nil), served)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// Real processes share a counter that is served to them; the processes of package exact/redis share
// a Redis.
func TestPaced(t *testing.T) {
	t.Parallel()
	exactkit.Paced(t, serveCounter(t), open)
}

// envQueue has this binary be a process whose callers wait for their turns, at the URL of a counter.
const envQueue = "TALLYSTICK_PACE_QUEUE"

func TestMain(m *testing.M) {
	if url := os.Getenv(envQueue); url != "" {
		if err := queue(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	exactkit.Process(open)
	os.Exit(m.Run())
}

// The first example by real processes, a hundred times as fast: one call goes in 100 ms, not in ten seconds. Fifty
// callers in five processes come at once. None is refused, and no two go closer together.
func TestFiftyCallersInFiveProcesses(t *testing.T) {
	t.Parallel()
	url := serveCounter(t)
	var booked []time.Time
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			c := exec.Command(os.Args[0])
			c.Env, c.Stderr = append(os.Environ(), envQueue+"="+url), os.Stderr
			out, err := c.Output()
			if err != nil {
				t.Errorf("a process: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(out)) {
				us, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
				if err != nil {
					t.Errorf("%q", line)
				}
				booked = append(booked, time.UnixMicro(us))
			}
		})
	}
	wg.Wait()
	require.Len(t, booked, 50, "each was served, and charged once")
	slices.SortFunc(booked, time.Time.Compare)
	for i := range 49 {
		require.GreaterOrEqual(t, booked[i+1].Sub(booked[i]), 100*time.Millisecond-time.Microsecond, "%d", i)
	}
	t.Logf("%s from the first to the last", booked[49].Sub(booked[0]))
}

// queue is one of those processes. It prints the moments that are booked for its ten callers, by the counter's clock, without what is
// given back.
func queue(url string) error {
	counter, err := open(url)
	if err != nil {
		return err
	}
	b := &bookings{Counter: counter, at: map[string]time.Time{}}
	p, err := pace.New(pace.Config{
		Counter:  b,
		Name:     "reports",
		Limits:   meter(10, time.Second),
		MaxWait:  exact.MaxAhead,
		Deadline: time.Minute, // on a busy machine
	})
	if err != nil {
		return err
	}
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = p.Wait(context.Background()) })
	}
	wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.at {
		fmt.Println(at.UnixMicro())
	}
	return errors.Join(errs...)
}

// A bookings is a counter that keeps what it has booked, by serial.
type bookings struct {
	exact.Counter
	mu sync.Mutex
	at map[string]time.Time
}

func (b *bookings) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := b.Counter.Take(ctx, call)
	if err == nil && v.Admitted && call.Cost > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.at[v.Receipt.Serial] = v.Receipt.At
	}
	return v, err
}

func (b *bookings) Refund(ctx context.Context, r exact.Receipt) error {
	b.mu.Lock()
	delete(b.at, r.Serial)
	b.mu.Unlock()
	return b.Counter.Refund(ctx, r)
}
