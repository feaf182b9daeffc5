// SPDX-License-Identifier: Apache-2.0

package paced

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

// The environment of a child: where the counter is, the service, and how long it runs.
const (
	envCounter = "TALLYSTICK_PACED_COUNTER"
	envService = "TALLYSTICK_PACED_SERVICE"
	envRuns    = "TALLYSTICK_PACED_RUNS"
)

// Config is the pacer of each process: ten calls a second. A counter on a busy machine may be late.
func Config(c exact.Counter) pace.Config {
	return pace.Config{
		Counter:  c,
		Name:     "paced",
		Limits:   []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}},
		Deadline: time.Minute,
	}
}

// Child is a process with one worker, which calls the service again and again, and prints how
// long each call waited, and what it has booked and given back. In a test run that is no child it does nothing.
func Child(t *testing.T, open func(where string) (exact.Counter, error)) {
	where := os.Getenv(envCounter)
	if where == "" {
		return
	}
	runs, err := time.ParseDuration(os.Getenv(envRuns))
	if err != nil {
		t.Fatal(err)
	}
	counter, err := open(where)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pace.New(Config(noting{counter}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runs)
	defer cancel()
	var came time.Time
	service := &http.Client{Transport: &pace.Transport{Pacer: p, Base: before(func() {
		fmt.Printf("waited %d\n", time.Since(came).Microseconds())
	})}}
	for {
		came = time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv(envService), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := service.Do(req)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return
		case err != nil:
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}

// A noting counter prints the moments that are booked, by the counter's clock.
type noting struct{ exact.Counter }

func (n noting) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := n.Counter.Take(ctx, call)
	if err == nil && v.Admitted && call.Cost > 0 {
		fmt.Printf("booked %s %d\n", v.Receipt.Serial, v.Receipt.At.UnixMicro())
	}
	return v, err
}

// Refund says so before it asks: the process may end before it has the answer, and another would
// have the same moment.
func (n noting) Refund(ctx context.Context, r exact.Receipt) error {
	fmt.Printf("back %s\n", r.Serial)
	return n.Counter.Refund(ctx, r)
}

// before is a transport that says when it sends.
type before func()

func (f before) RoundTrip(r *http.Request) (*http.Response, error) {
	f()
	return http.DefaultTransport.RoundTrip(r)
}
