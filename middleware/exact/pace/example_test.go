// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/middleware/exact/remote"
	"github.com/tallystick/tallystick/storeless"
)

// oneInTenSeconds is what the service permits, in each process. A second more: the network may
// delay one call and not the next.
func oneInTenSeconds(counter exact.Counter) (*pace.Pacer, error) {
	return pace.New(pace.Config{
		Counter: counter,
		Name:    "reports",
		Limits:  []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 1, Window: 11 * time.Second}},
		MaxWait: exact.MaxAhead, // an hour: fifty callers wait nine minutes
	})
}

// A service permits one call in ten seconds, and fifty workflows start at once, ten in each of
// five processes. This is one of the processes. Each workflow waits for its turn, as long as its
// context lets it.
func Example() {
	secrets := remote.Config{Secrets: [][]byte{[]byte("both ends share 32 bytes at least")}}
	counter, err := remote.Open([]string{"http://10.0.0.7:9000/counter"}, secrets) // or of package exact/redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer counter.Close()
	reports, err := oneInTenSeconds(counter)
	if err != nil {
		fmt.Println(err)
		return
	}
	var workflows sync.WaitGroup
	for range 10 {
		workflows.Go(func() {
			err := reports.Schedule(context.Background(), func(context.Context) error {
				return nil // the call
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	workflows.Wait()
}

// Requests and the tokens of a model, through an http.Client.
func ExampleTransport() {
	p, err := pace.New(pace.Config{
		Counter: memory.New(0, nil), // of package exact/redis, for several processes
		Name:    "models",
		Limits:  []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 500, Window: time.Minute}},
		Units: map[string][]storeless.Limit{
			"tokens": {{Algorithm: storeless.TokenBucket, Quota: 80_000, Window: time.Minute, Burst: 10_000}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := &http.Client{Transport: &pace.Transport{Pacer: p, Costs: func(r *http.Request) []pace.Cost {
		return []pace.Cost{{Unit: "tokens", N: 300 + r.ContentLength/4}} // an estimate
	}}}
	_ = models
}
