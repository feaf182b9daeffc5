// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// keys counts the keys of the calls to a counter.
type keys struct {
	exact.Counter
	seen map[string]int
}

func (k keys) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	k.seen[call.Key]++
	return k.Counter.Take(ctx, call)
}

// anonymous spreads clients that have not logged in over some keys of the counter, by their addresses.
func anonymous(shards uint32) middleware.IdentityFunc {
	return func(r *http.Request) (middleware.Identity, error) {
		address, err := middleware.PeerAddress(r)
		if err != nil {
			return middleware.Identity{}, err
		}
		h := fnv.New32a()
		h.Write([]byte(address.Addr().String()))
		return middleware.Principal(fmt.Sprint("anon:", h.Sum32()%shards)), nil
	}
}

// Clients that have not logged in share one quota, and its key would be the busiest of the counter. Sixteen keys share the
// load, each with a sixteenth of the quota.
func ExamplePrincipal_shards() {
	const shards = 16
	counter := keys{memory.New(0, nil), map[string]int{}}
	limit, err := middleware.New(middleware.Config{
		Policy:   "search",
		Limits:   []middleware.Limit{{Quota: 16_000 / shards, Window: time.Hour}},
		Secrets:  [][]byte{[]byte("an example, and no secret at all")},
		Identity: anonymous(shards),
		Exact:    &middleware.Exact{Counter: counter, Outage: middleware.FailOpen},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limit.Handler(http.NotFoundHandler())
	for n := range 1000 {
		r := httptest.NewRequest(http.MethodGet, "/search", nil)
		r.RemoteAddr = fmt.Sprintf("198.51.%d.%d:1024", n/250, n%250)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	fmt.Println(len(counter.seen), "keys")
	// Output: 16 keys
}
