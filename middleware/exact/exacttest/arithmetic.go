// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

func upgrade(r *run) {
	small, large := policy(fixed(2, long)), policy(fixed(5, long))
	r.want(small, r.key(0), 2, true, 0)
	r.want(small, r.key(0), 1, false, 0)
	r.want(large, r.key(0), 2, true, 1)
	r.want(small, r.key(0), 1, false, 0)
}

// algorithms compares a counter with the pure arithmetic, step by step.
func algorithms(r *run) {
	for n, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket} {
		limits := []storeless.Limit{{Algorithm: a, Quota: 7, Window: time.Minute}, fixed(60, time.Hour)}
		p := policy(limits...)
		pure, err := limiter.Compile(p.Name(), limits)
		r.no(err)
		var tally limiter.Tally
		for step := range 400 {
			r.clock.Advance(time.Duration(step*step%17) * time.Second / 2)
			cost := int64(1 + step%3%2)
			after, is := pure.Step(r.clock.Now(), tally, cost)
			tally = after
			want, got := limiter.VerdictAs[storeless.Verdict](is), r.take(p, r.key(n), cost)
			if got.Verdict != want {
				r.fail("%s, step %d: %+v, want %+v", a, step, got.Verdict, want)
			}
		}
	}
}
