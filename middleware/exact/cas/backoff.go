// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"context"
	"time"
)

const (
	// doublings bounds a pause to eight tries, enough for eight instances. Without a bound
	// it overflows: a starved call tries more than 60 times. With 32 tries the losers sleep
	// while the winner goes on winning.
	doublings = 3

	// shortest is the assumed minimum length of a try, so that there is a pause at all.
	shortest = 100 * time.Microsecond
)

// backoff waits before another try, at random and longer each time, so that losers of a race
// do not meet in the next. It is measured in tries, not milliseconds: stores answer in one
// or in twenty. It reports whether there was time; if not, it does not wait.
func backoff(ctx context.Context, try int64, took time.Duration, random func(n int64) int64) bool {
	d := max(took, shortest) << min(try-1, doublings)
	d = time.Duration(random(int64(d)))
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
