// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// stampName names the limit that no request is checked against. Its entry in a token is a
// stamp: that the counter has refused its holder, and when.
const stampName = "exact-blocked"

// stampFresh is for how long a stamp is believed. The instance that has said it may be five
// seconds ahead of the one that reads it: together they are [guardedcall.Believed].
const stampFresh = guardedcall.Believed - 5*time.Second

// withStamp returns limits and one more, whose entry in tokens is the stamp. A token that has
// nothing else to say outlives what it is believed for, and not by much.
func withStamp(p *limiter.Policy) []limiter.Limit {
	limits := make([]limiter.Limit, 0, p.Len()+1)
	for i := range p.Len() {
		limits = append(limits, p.Limit(i))
	}
	return append(limits, limiter.Limit{Name: stampName, Algorithm: limiter.LeakyBucket, Quota: 1, Window: guardedcall.Believed})
}

// stampOf returns the stamp of a refusal of cost 1: when it was said, for how many seconds, by which limit, and the
// client and the quotas that it is about, so that a client that has moved to a larger tier is not held to what the
// smaller one refused. Limit and key have 16 bits together: each digit makes the longest token longer.
func stampOf(said *guardedcall.Refusal, k *guardedcall.Key) limiter.State {
	seconds := (said.Until - said.Said + 999_999) / 1_000_000
	about := binary.BigEndian.Uint16(k[:])&^limitBits | uint16(said.Limit)
	return limiter.State{At: said.Said, Cur: uint32(min(seconds, storeless.MaxQuota)), Prev: uint32(about)}
}

// limitBits are the bits of a limit, [guardedcall.NoLimit] among them.
const limitBits = 7

// refusal returns what a stamp says of k, if it does.
func refusal(stamp limiter.State, k *guardedcall.Key) (said guardedcall.Refusal) {
	said = guardedcall.Refusal{Cost: 1, Said: stamp.At, Until: stamp.At + int64(stamp.Cur)*1_000_000, Limit: uint8(stamp.Prev & limitBits)}
	if stamp != stampOf(&said, k) {
		return guardedcall.Refusal{}
	}
	return said
}

// merged merges what two tokens say. The newer of two stamps counts, whole.
func (e *engine) merged(now time.Time, a, b limiter.Tally) limiter.Tally {
	both := e.carried.Merge(now, a, b)
	if e.exact != nil {
		stamp := e.exact.stamp
		if both[stamp] = a[stamp]; b[stamp].At > a[stamp].At {
			both[stamp] = b[stamp]
		}
	}
	return both
}

// A cachedRefusal is known before the counter is asked, from this instance or from a token.
type cachedRefusal struct {
	guardedcall.Refusal
	refuses     bool   // without a call
	clientKnows bool   // by its token
	stale       bool   // it was refused, longer ago than that is believed
	givenBack   uint64 // for what is noted of the answer
}

// findRefusal returns what is known of a request: by what this instance has been told, or another
// that has said so in the token.
func (q *call) findRefusal(c *exactCall, cost int64) (known cachedRefusal) {
	if cost == 0 {
		return known
	}
	stamped := refusal(q.shown.shared[q.exact.stamp], &c.refusal)
	price := q.priceOf(cost)
	if stamped.Cost > price.Of(int(stamped.Limit)) { // of a limit that this request does not count in
		stamped = guardedcall.Refusal{}
	}
	known.Refusal, known.givenBack = q.exact.refusals.Look(q.at, c.refusal, func(limit uint8) int64 { return price.Of(int(limit)) })
	known.stale = max(known.Left(q.at), stamped.Left(q.at)) > 0
	switch {
	case !known.stale:
	case known.Fresh(q.at, guardedcall.Believed):
		known.refuses, known.clientKnows, known.stale = true, stamped.Said == known.Said, false
	case stamped.Fresh(q.at, stampFresh) && stamped.Left(q.at) > 0:
		known.Refusal, known.refuses, known.clientKnows, known.stale = stamped, true, true, false
	}
	return known
}

// standings writes how the limits stand that a refusal names: one, as nothing is known of the others any more. It
// reports whether the policy, with this many limits, has that one.
func standings(v *limiter.Verdict, known *guardedcall.Refusal, limits int) bool {
	if int(known.Limit) >= limits {
		return false
	}
	for i := range v.Limits {
		v.Limits[i].Remaining = unknown
	}
	v.Limits[known.Limit] = limiter.LimitStatus{Remaining: int64(known.Remaining), Reset: v.Wait, Blocked: true}
	return true
}

// longest returns the limit that has refused for longest, and what is left of it.
func longest(v *limiter.Verdict, limits int) (limit uint8, remaining int32) {
	limit = guardedcall.NoLimit
	for i := range limits {
		if s := &v.Limits[i]; s.Blocked && !s.Shadow && (limit == guardedcall.NoLimit || s.Reset > v.Limits[limit].Reset) {
			limit = uint8(i)
		}
	}
	if limit < guardedcall.NoLimit {
		remaining = int32(v.Limits[limit].Remaining)
	}
	return limit, remaining
}

// stamped returns what is shown with the stamp of a refusal, or nil if no instance would believe it
// any more, or a cheaper request might pass.
func (q *call) stamped(c *exactCall, cost int64, said *guardedcall.Refusal) *limiter.Tally {
	if q.priceOf(cost).Of(int(said.Limit)) != 1 || !said.Fresh(q.at, stampFresh) {
		return nil
	}
	tally := c.fallback.Shown
	tally[q.exact.stamp] = stampOf(said, &c.refusal)
	return &tally
}
