// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"errors"
	"flag"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/peers/turns"
	"github.com/tallystick/tallystick/internal/testkit"
)

var (
	crowdSizes = flag.String("clients", "1,100000,1000000", "how many clients BenchmarkAllowed and BenchmarkRefused have")
	heapSizes  = flag.String("heap", "100000,1000000", "how many clients BenchmarkHeap has")
)

// BenchmarkAllowed is one allowed request of a client that the limiter knows.
func BenchmarkAllowed(b *testing.B) { compare(b, Plenty, http.StatusOK) }

// BenchmarkRefused is one request of a client that has used up its quota.
func BenchmarkRefused(b *testing.B) { compare(b, One, http.StatusTooManyRequests) }

// compare runs one workload for every limiter and size of the population.
func compare(b *testing.B, terms func(clients int) Terms, want int) {
	for _, l := range Limiters() {
		if l.Unlimited && want != http.StatusOK {
			continue
		}
		b.Run("limiter="+l.Name, func(b *testing.B) {
			for _, n := range sizes(b, *crowdSizes) {
				// The function below runs once for each guess of b.N.
				var s *stage
				b.Run("clients="+strconv.Itoa(n), func(b *testing.B) {
					if s == nil {
						var err error
						s, err = newStage(l, terms(n), want)
						need(b, err)
					}
					s.run(b)
				})
				if s != nil {
					require.NoError(b, s.instance.Close())
				}
			}
		})
	}
}

// run sends b.N requests from all seats and audits them.
func (s *stage) run(b *testing.B) {
	s.restart()
	runtime.GC() // of what came before
	var seated atomic.Int32
	measure(b, func() {
		b.RunParallel(func(pb *testing.PB) {
			seat := s.seats[seated.Add(1)-1]
			for pb.Next() {
				seat.send()
			}
		})
	})
	require.NoError(b, audit(s.seats, nil, b.N))
}

// measure times work, which does b.N of what the benchmark is about, also in
// processor time: see [turns.ProcessorTime].
func measure(b *testing.B, work func()) {
	b.ReportAllocs()
	before, ok := turns.ProcessorTime()
	b.ResetTimer()
	work()
	b.StopTimer()
	if after, _ := turns.ProcessorTime(); ok {
		b.ReportMetric(float64(after-before)/float64(b.N), "cpu-ns/op")
	}
}

// need fails the benchmark for any error, but skips it where nothing is wrong
// but that there is no Redis, unless TALLYSTICK_REQUIRE=1 says there must be.
func need(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrNoRedis) {
		testkit.Unable(tb, "%v", err)
	}
	require.NoError(tb, err)
}

func sizes(tb testing.TB, list string) (all []int) {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		require.NoError(tb, err)
		all = append(all, n)
	}
	return all
}
