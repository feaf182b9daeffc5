// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

func upgrade(r *run) error {
	small, large := policy(fixed(2, long)), policy(fixed(5, long))
	return errors.Join(
		r.want(small, r.key(0), 2, true, 0), r.want(small, r.key(0), 1, false, 0),
		r.want(large, r.key(0), 2, true, 1), r.want(small, r.key(0), 1, false, 0))
}

// algorithms compares a counter with the pure arithmetic, step by step.
func algorithms(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	for n, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket} {
		limits := []storeless.Limit{{Algorithm: a, Quota: 7, Window: time.Minute}, fixed(60, time.Hour)}
		p := policy(limits...)
		pure, err := limiter.Compile(p.Name(), limits)
		if err != nil {
			return err
		}
		var tally limiter.Tally
		for step := range 400 {
			r.clock.Advance(time.Duration(step*step%17) * time.Second / 2)
			cost := int64(1 + step%3%2)
			var want storeless.Verdict
			tally, want = pure.Step(r.clock.Now(), tally, cost)
			got, err := r.take(p, r.key(n), cost)
			if err != nil {
				return err
			}
			if got.Verdict != want {
				return fmt.Errorf("%s, step %d: %+v, want %+v", a, step, got.Verdict, want)
			}
		}
	}
	return nil
}
