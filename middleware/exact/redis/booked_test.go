// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// both is a counter on a server and one in memory, by one clock, that must agree in everything.
type both struct {
	*server
	clock  *exacttest.Clock
	redis  timed
	memory exact.Counter
}

func newBoth(t *testing.T) *both {
	s, clock := startServer(t), ahead()
	return &both{s, clock, timed{s.byKey(redis.Config{}), s, clock}, memory.New(0, clock.Now)}
}

// take takes a call, or peeks, and returns what both say of it, receipts and places on lines
// included.
func (b *both) take(call exact.Call, peek bool, of string) exact.Verdict {
	b.t.Helper()
	ask := exact.Counter.Take
	if peek {
		ask = exact.Counter.Peek
	}
	got, err := ask(b.redis, b.t.Context(), call)
	require.NoError(b.t, err, "%s: %+v", of, call)
	want, err := ask(b.memory, b.t.Context(), call)
	require.NoError(b.t, err, "%s: %+v", of, call)
	require.Equal(b.t, want.Receipt.At.UnixMicro(), got.Receipt.At.UnixMicro(), of)
	got.Receipt.At = want.Receipt.At
	require.Equal(b.t, want, got, of)
	return got
}

func (b *both) refund(r exact.Receipt, of string) bool {
	b.t.Helper()
	want, got := b.memory.Refund(b.t.Context(), r), b.redis.Refund(b.t.Context(), r)
	require.Equal(b.t, want, got, "%s: %+v", of, r)
	return want == nil
}

// Random traces of calls that are booked, charged past the limit, paused, given back in part
// and asked for again, of several policies on one account, by a clock that steps back: the
// scripts say what an account in memory says, to the last place on a line.
func TestScriptIsTheArithmeticOfBookings(t *testing.T) {
	b := newBoth(t)
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 16))
		window := []time.Duration{time.Second, time.Minute, time.Hour, 4 * time.Hour}[seed%4]
		bucket := func(name string, quota, burst int64) storeless.Limit {
			return storeless.Limit{Name: name, Algorithm: storeless.TokenBucket, Quota: quota, Window: window, Burst: burst}
		}
		slow, fast := bucket("slow", 10, 1+rng.Int64N(4)), bucket("fast", 100, 30)
		leaky := storeless.Limit{Name: "leaky", Algorithm: storeless.LeakyBucket, Quota: 40, Window: window}
		policies := []*exact.Policy{exactkit.Compile(t, slow), exactkit.Compile(t, slow, leaky, fast)}
		if seed >= 8 {
			policies = append(policies, exactkit.Compile(t, fast),
				exactkit.Compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 1000, Window: window}, slow,
					storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: 1000, Window: window}))
		}
		var receipts []exact.Receipt
		var last exact.Call // that was admitted under an ID, and when
		var asked time.Time
		booked, back, holes, again := 0, 0, 0, 0
		for step := range 600 {
			of := fmt.Sprintf("seed %d, step %d", seed, step)
			b.clock.Advance(time.Duration(rng.Float64() * rng.Float64() * float64(window) / 10).Truncate(time.Microsecond))
			if rng.IntN(60) == 0 {
				b.clock.Advance(window) // all that is booked may be over
			}
			p := policies[0]
			if rng.IntN(3) == 0 {
				p = policies[rng.IntN(len(policies))]
			}
			call := exact.Call{Key: fmt.Sprint("key ", seed), Cost: 1, Policy: p}
			switch turn := rng.IntN(12); {
			case step > 560 && turn < 3: // as much as a bucket can be owed, and more
				call.Past, call.Cost = true, storeless.MaxQuota
			case turn == 0:
				call.Past, call.Cost = true, 1+rng.Int64N(3)
			case turn == 1:
				call.Pause, call.Cost = 1+time.Duration(rng.Int64N(int64(min(window, time.Hour)))), 0
			case turn < 4:
			default:
				if len(policies) < 4 || p != policies[3] {
					call.Ahead = min(exact.MaxAhead, 1+time.Duration(rng.Int64N(3*int64(window))))
					call.Cost = 1 + rng.Int64N(slow.Burst+1)
				}
			}
			if rng.IntN(4) == 0 && call.Pause == 0 {
				call.ID = of
			}
			if call.ID == "" && rng.IntN(10) == 0 && call.Cost > 0 {
				b.take(call, true, of)
			}
			v := b.take(call, false, of)
			if v.Admitted && call.ID != "" {
				last, asked = call, b.clock.Now()
			}
			if v.Admitted && v.Wait > 0 {
				booked++
			}
			if v.Receipt.Cost > 0 {
				receipts = append(receipts, v.Receipt)
			}
			if v.Admitted && rng.IntN(20) == 0 {
				last.ID = "" // which is remembered for less or more then
				b.clock.Advance(-time.Duration(rng.Int64N(int64(window / 4))).Truncate(time.Microsecond))
			}
			if rng.IntN(4) == 0 && len(receipts) > 0 {
				r := receipts[len(receipts)-1-rng.IntN(min(len(receipts), 12))]
				if rng.IntN(3) == 0 {
					r.Cost = 1 + rng.Int64N(r.Cost)
				}
				if b.refund(r, of) {
					back++
					if strings.Contains(r.Serial, "_") {
						holes++
					}
				}
			}
			if rng.IntN(3) == 0 && last.ID != "" && b.clock.Now().Sub(asked) < exact.IDLife {
				require.True(t, b.take(last, false, of+", again").Replayed)
				again++
			}
		}
		t.Logf("seed %d: %d booked, %d given back, of them %d on lines, %d asked for again", seed, booked, back, holes, again)
		require.Greater(t, booked, 20)
		require.Greater(t, holes, 5)
	}
}
