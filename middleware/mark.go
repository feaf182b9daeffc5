package middleware

import (
	"encoding/binary"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// markName names the limit that no request is checked against: in a token its
// time mark says until when the counter has refused its holder.
const markName = "exact-blocked"

// withMark returns limits and one more, whose entry in tokens is the mark. Of the
// longest window, so that a mark lies as far ahead as any refusal may.
func withMark(p *storeless.Policy) []storeless.Limit {
	limits, longest := make([]storeless.Limit, 0, p.Len()+1), time.Second
	for i := range p.Len() {
		l := p.Limit(i)
		limits, longest = append(limits, l), max(longest, l.Window)
	}
	return append(limits, storeless.Limit{Name: markName, Algorithm: storeless.LeakyBucket, Quota: 1, Window: longest})
}

// printBits are the lowest bits of a mark: not time, but whom and which quotas it
// is about, so that a client that has moved to a larger tier is not held to what
// the smaller one refused. They cost four milliseconds of precision.
const printBits = 12

func stamp(until time.Time, k *counterKey) int64 {
	const low = 1<<printBits - 1
	return until.UnixMicro()&^low | int64(binary.BigEndian.Uint16(k[:])&low)
}

// blocked returns for how long the counter need not be asked, because it has
// refused the same before: on this instance, or on another that has said so in
// the token; and whether the client knows.
//
// A mark further ahead than any refusal can have told is one of a clock that went
// wrong, and nobody is held to it: to ask the counter gives nothing away.
func (s *escalation) blocked(c *call, q *inquiry, cost int64) (wait time.Duration, told bool) {
	if cost == 0 {
		return 0, false
	}
	wait = s.spent.blocked(c.refusal, cost, q.now)
	if at := q.shown.shared[s.mark].At; at > q.now.UnixMicro() && at == stamp(time.UnixMicro(at), &c.refusal) {
		if left := time.UnixMicro(at).Sub(q.now); left <= q.tier.policy.Life() {
			return max(wait, left), true
		}
	}
	return wait, false
}

// marked returns what is shown with the mark of a refusal, or nil if a cheaper
// request might pass.
func (s *escalation) marked(q *inquiry, c *call, cost int64, wait time.Duration) *storeless.Tally {
	if cost != 1 {
		return nil
	}
	tally := c.fallback.Shown
	tally[s.mark] = storeless.State{At: stamp(q.now.Add(wait), &c.refusal)}
	return &tally
}
