// SPDX-License-Identifier: Apache-2.0

package pace_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/pace"
	"github.com/tallystick/tallystick/storeless"
)

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
