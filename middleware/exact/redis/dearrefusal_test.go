// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// spent is what the commands of a kind have cost the server: how many, and the time of all.
func (s *server) spent(command string) (calls, usec int) {
	stats := s.do("INFO", "commandstats")
	m := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+),usec=(\d+)`).FindStringSubmatch(stats)
	if m == nil {
		return 0, 0
	}
	calls, _ = strconv.Atoi(m[1])
	usec, _ = strconv.Atoi(m[2])
	return calls, usec
}

// A dear refusal of a full sliding log looks at as many marks as a cheap one, within a
// bound, and says the same as the memory does: never a wait that is too short.
func TestDearRefusalCostsNoMoreThanACheapOne(t *testing.T) {
	b := newBoth(t)
	s, c, clock, memory := b.server, b.redis, b.clock, b.memory
	const quota = 4000
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: quota, Window: time.Hour})
	rng := rand.New(rand.NewPCG(1, 1))
	both := func(cost int64, p *exact.Policy) exact.Verdict {
		return b.take(exact.Call{Key: "k", Cost: cost, Policy: p}, false, fmt.Sprint("cost ", cost))
	}
	marks := 0
	var some []exact.Receipt
	for {
		clock.Advance(100 * time.Millisecond)
		v := both(1+rng.Int64N(3), p)
		if !v.Admitted {
			break
		}
		marks++
		some = append(some, v.Receipt)
	}
	require.Greater(t, marks, 1500)
	for n := 0; n < len(some); n += 7 { // holes, which are no marks
		r := some[n]
		require.NoError(t, c.Refund(t.Context(), r))
		require.NoError(t, memory.Refund(t.Context(), r))
	}
	for v := both(1, p); v.Admitted; v = both(1, p) {
	}
	for range 200 {
		clock.Advance(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		cost := 1 + rng.Int64N(quota)
		if v := both(cost, p); !v.Admitted {
			require.LessOrEqual(t, v.Wait, time.Hour)
		}
	}
	lowered := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.SlidingLog, Quota: quota / 3, Window: time.Hour})
	for _, cost := range []int64{1, 10, quota / 6, quota / 3, quota / 2} {
		require.False(t, both(cost, lowered).Admitted)
	}

	refuse := func(cost int64) (pages, usec int) {
		const times = 20
		before, _ := s.spent("zrangebyscore")
		_, from := s.spent("evalsha")
		for range times {
			require.False(t, exactkit.Peek(t, c, exact.Call{Key: "k", Cost: cost, Policy: p}).Admitted)
		}
		after, _ := s.spent("zrangebyscore")
		_, to := s.spent("evalsha")
		return (after - before) / times, (to - from) / times
	}
	both(quota, p) // what has ended is gone
	cheap, cheapTime := refuse(quota - 1)
	t.Logf("a refusal at cost %d of %d, %d marks: %d pages, %d us of the server", quota-1, quota, marks, cheap, cheapTime)
	require.LessOrEqual(t, cheap, 5)
}
