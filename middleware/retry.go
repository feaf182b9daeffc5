// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// jittered adds up to a tenth, and up to 30 seconds, so that clients refused
// together do not return together. Upwards only: an early client is refused
// again.
func jittered(wait time.Duration) time.Duration {
	seconds := max(1, int64(wait/time.Second))
	return time.Duration(seconds+rand.Int64N(min(seconds/10, 30)+1)) * time.Second
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// outageWait is the longest that an outage sends anybody away for: the share of an
// instance may be spent for a day, and the counter be back in a second.
const outageWait = time.Minute

// capOutageWait shortens what a verdict of the fallback says of when to come again.
func capOutageWait(v *storeless.Verdict) {
	v.Wait = min(v.Wait, outageWait)
	for i := range v.Limits {
		if s := &v.Limits[i]; s.Blocked {
			s.Reset = min(s.Reset, outageWait)
		}
	}
}

// restOf returns how long an own tally has to live.
func restOf(now time.Time, own *token.Own) time.Duration {
	return wholeSeconds(time.Unix(own.Expires, 0).Sub(now))
}

// capWaits shortens what a verdict on an own tally says of later than its end: after that
// it stands in nobody's way, and nothing comes back to it.
func capWaits(v *storeless.Verdict, rest time.Duration) {
	v.Wait = min(v.Wait, rest)
	for i := range v.Limits {
		v.Limits[i].Reset = min(v.Limits[i].Reset, rest)
	}
}
