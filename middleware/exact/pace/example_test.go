// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

// Fifty workers in five processes under one limit of 100 a second. Here the processes are
// pacers that share a counter in memory; real ones open package exact/redis each.
func Example() {
	counter := memory.New(0, nil)
	began := time.Now()
	var workers sync.WaitGroup
	for range 5 {
		p, err := pace.New(pace.Config{
			Counter: counter,
			Name:    "maps",
			Limits:  []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 100, Window: time.Second}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		for range 10 {
			workers.Go(func() {
				err := p.Schedule(context.Background(), func(context.Context) error {
					return nil // the call
				})
				if err != nil {
					fmt.Println(err)
				}
			})
		}
	}
	workers.Wait()
	fmt.Println("fifty calls took at least 490 ms:", time.Since(began) >= 490*time.Millisecond)
	// Output: fifty calls took at least 490 ms: true
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
