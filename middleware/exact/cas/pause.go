// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"context"
	"time"
)

const (
	// doublings bounds how a pause grows: to eight tries, which is enough for as many
	// instances. Without a bound it overflows, because a call that is starved does try more
	// than 60 times; with 32 tries the losers sleep while who has won goes on winning.
	doublings = 3

	// shortest is what a try is taken to last at least, so that there is a pause at all.
	shortest = 100 * time.Microsecond
)

// pause waits before another try, at random and longer each time, or those who have lost a
// race would meet again in the next. It is measured in what a try takes, not in
// milliseconds: stores answer in one or in twenty. It reports whether the time was there;
// where it is not, it does not wait for its end.
func pause(ctx context.Context, try int64, took time.Duration, random func(n int64) int64) bool {
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
