// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

func TestIdleLimits(t *testing.T) {
	sliding := func(q int64, w time.Duration) Limit { return Limit{Quota: q, Window: w} }
	fixed := func(q int64, w time.Duration) Limit { return Limit{Algorithm: FixedWindow, Quota: q, Window: w} }
	bucket := func(q int64, w time.Duration, b int64) Limit {
		return Limit{Algorithm: TokenBucket, Quota: q, Window: w, Burst: b}
	}
	leaky := func(q int64, w time.Duration) Limit {
		return Limit{Algorithm: storeless.LeakyBucket, Quota: q, Window: w}
	}
	for name, test := range map[string]struct {
		l, j Limit
		want bool
	}{
		"the same window, more":             {sliding(10, time.Minute), sliding(1000, time.Minute), true},
		"the same window, less":             {sliding(1000, time.Minute), sliding(10, time.Minute), false},
		"an hour of more than its minutes":  {sliding(5, time.Minute), sliding(1000, time.Hour), true},
		"an hour of just its minutes":       {sliding(10, time.Minute), sliding(600, time.Hour), false},
		"the same, in fixed windows":        {fixed(10, time.Minute), fixed(600, time.Hour), true},
		"a little less than its minutes":    {fixed(10, time.Minute), fixed(599, time.Hour), false},
		"a day of less":                     {sliding(5, time.Minute), sliding(50, 24*time.Hour), false},
		"a shorter window, as much":         {sliding(50, time.Hour), sliding(50, time.Minute), true},
		"a shorter window, less":            {sliding(50, time.Hour), sliding(49, time.Minute), false},
		"slides over the end of a fixed":    {fixed(10, time.Minute), sliding(19, time.Minute), false},
		"slides, twice as much":             {fixed(10, time.Minute), sliding(20, time.Minute), true},
		"windows that do not meet":          {sliding(10, 7*time.Second), sliding(20, 10*time.Second), false},
		"windows that do not meet, enough":  {sliding(10, 7*time.Second), sliding(40, 10*time.Second), true},
		"a bucket before a window":          {bucket(60, time.Minute, 10), sliding(70, time.Minute), true},
		"a bucket before a smaller window":  {bucket(60, time.Minute, 10), sliding(69, time.Minute), false},
		"a meter before a window":           {leaky(60, time.Minute), sliding(62, time.Minute), true},
		"a meter before a smaller window":   {leaky(60, time.Minute), sliding(60, time.Minute), false},
		"a bucket in a larger and faster":   {bucket(60, time.Minute, 10), bucket(61, time.Minute, 10), true},
		"a bucket just as fast":             {bucket(60, time.Minute, 10), bucket(3600, time.Hour, 10), true},
		"a bucket in a smaller":             {bucket(60, time.Minute, 10), bucket(61, time.Minute, 9), false},
		"a bucket in a slower":              {bucket(60, time.Minute, 10), bucket(59, time.Minute, 100), false},
		"a window before a bucket":          {sliding(10, time.Minute), bucket(11, time.Minute, 20), true},
		"a window before a small bucket":    {sliding(10, time.Minute), bucket(11, time.Minute, 19), false},
		"a log that holds less":             {sliding(10, time.Minute), Limit{Algorithm: storeless.SlidingLog, Quota: 20, Window: time.Minute}, false},
		"a log that holds what two windows": {sliding(10, time.Minute), Limit{Algorithm: storeless.SlidingLog, Quota: 30, Window: time.Minute}, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, idle(test.j, test.l)) })
	}
}

// What is told is true: whatever comes, a limit that is called idle refuses nothing that the
// other would admit. Requests come in the worst ways: as many as pass around the ends of
// windows, and at random.
func TestIdleLimitsNeverRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	windows := []time.Duration{1, 2, 3, 6, 7, 10, 12}
	pick := func(name string) Limit {
		l := Limit{Name: name, Algorithm: storeless.Algorithm(r.IntN(4)), Quota: 1 + r.Int64N(20), Window: windows[r.IntN(len(windows))] * time.Second}
		if r.IntN(2) == 0 {
			l.Quota *= 6
		}
		if l.Algorithm == TokenBucket {
			l.Burst = 1 + r.Int64N(40)
		}
		return l
	}
	found := map[[2]storeless.Algorithm]int{}
	for range 1500 {
		j, l := pick("idle"), pick("first")
		both, err := limiter.Compile("both", []Limit{j, l})
		require.NoError(t, err)
		if !idle(both.Limit(0), both.Limit(1)) {
			continue
		}
		found[[2]storeless.Algorithm{j.Algorithm, l.Algorithm}]++
		now, tally := time.Unix(1_000_000_000, 0), limiter.Tally{}
		for range 250 {
			switch r.IntN(4) {
			case 0: // just before the next whole second, where windows end
				now = now.Truncate(time.Second).Add(time.Second - time.Microsecond)
			case 1:
				now = now.Truncate(time.Second).Add(time.Second)
			case 2:
				now = now.Add(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			cost := 1 + r.Int64N(4)*r.Int64N(5)
			for range 3 {
				var v storeless.Verdict
				tally, v = both.Step(now, tally, cost)
				require.False(t, v.Limits[0].Blocked && !v.Limits[1].Blocked, "%+v refuses before %+v", j, l)
			}
		}
	}
	require.Len(t, found, 14, "all pairs of algorithms are tried, but a meter, which no window fits in: %v", found)
}
