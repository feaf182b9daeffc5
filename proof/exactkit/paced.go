// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

// paced is the pacer of each process: ten calls a second. A counter on a busy machine may be late.
func paced(c exact.Counter) pace.Config {
	return pace.Config{
		Counter:  c,
		Name:     "paced",
		Limits:   []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}},
		Deadline: time.Minute,
	}
}

// paces is a process with one worker, which calls a service again and again, and prints how
// long each call waited, and what it has booked and given back.
func paces(counter exact.Counter, service, runs string) error {
	life, err := time.ParseDuration(runs)
	if err != nil {
		return err
	}
	p, err := pace.New(paced(noting{counter}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), life)
	defer cancel()
	var came time.Time
	calls := &http.Client{Transport: &pace.Transport{Pacer: p, Base: before(func() {
		fmt.Printf("waited %d\n", time.Since(came).Microseconds())
	})}}
	for {
		came = time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, service, nil)
		if err != nil {
			return err
		}
		resp, err := calls.Do(req)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		case err != nil:
			return err
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
