// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// stampName names the limit that no request is checked against: in a token its
// time mark says until when the counter has refused its holder.
const stampName = "exact-blocked"

// withStamp returns limits and one more, whose entry in tokens is the stamp. Of the
// longest window, so that a stamp lies as far ahead as any refusal may.
func withStamp(p *storeless.Policy) []storeless.Limit {
	limits, longest := make([]storeless.Limit, 0, p.Len()+1), time.Second
	for i := range p.Len() {
		l := p.Limit(i)
		limits, longest = append(limits, l), max(longest, l.Window)
	}
	return append(limits, storeless.Limit{Name: stampName, Algorithm: storeless.LeakyBucket, Quota: 1, Window: longest})
}

// hashBits are the lowest bits of a stamp: not time, but whom and which quotas it
// is about, so that a client that has moved to a larger tier is not held to what
// the smaller one refused. They cost four milliseconds of precision.
const hashBits = 12

func stampOf(until time.Time, k *guardedcall.Key) int64 {
	const low = 1<<hashBits - 1
	return until.UnixMicro()&^low | int64(binary.BigEndian.Uint16(k[:])&low)
}

// refusedUntil returns for how long the counter need not be asked, because it has
// refused the same before: on this instance, or on another that has said so in
// the token; and whether the client knows.
//
// A stamp further ahead than any refusal can have told is one of a clock that went
// wrong, and nobody is held to it: to ask the counter gives nothing away.
func (x *exactCounter) refusedUntil(now time.Time, who *subject, c *exactCall, shown *credentials, cost int64) (wait time.Duration, told bool) {
	if cost == 0 {
		return 0, false
	}
	wait = x.refusals.Blocked(now, c.refusal, cost)
	if at := shown.shared[x.stamp].At; at > now.UnixMicro() && at == stampOf(time.UnixMicro(at), &c.refusal) {
		if left := time.UnixMicro(at).Sub(now); left <= who.tier.policy.Life() {
			return max(wait, left), true
		}
	}
	return wait, false
}

// stamped returns what is shown with the stamp of a refusal, or nil if a cheaper
// request might pass.
func (x *exactCounter) stamped(now time.Time, c *exactCall, cost int64, wait time.Duration) *storeless.Tally {
	if cost != 1 {
		return nil
	}
	tally := c.fallback.Shown
	tally[x.stamp] = storeless.State{At: stampOf(now.Add(wait), &c.refusal)}
	return &tally
}
