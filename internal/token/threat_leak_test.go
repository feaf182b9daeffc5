// SPDX-License-Identifier: Apache-2.0

package token

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// TestT13: with the key itself an attacker signs what he likes, and still gets
// no more of a tally than a client without tokens: the quota, from the memory.
// What he need not do any more is to work for a tally: each id that he makes up
// is one, with a quota of its own.
func TestT13(t *testing.T) {
	for kind, names := range map[string]string{"shared": `"sub":"%s"`, "own": `"fam":"AAAAAAAAAAAA"`, "bound": `"sub":"%s","fam":"AAAAAAAAAAAA"`} {
		t.Run(kind, func(t *testing.T) { leaked(t, names) })
	}
}

func leaked(t *testing.T, names string) {
	for _, algorithm := range []storeless.Algorithm{
		storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket,
	} {
		t.Run(algorithm.String(), func(t *testing.T) {
			const window = 60 // seconds
			p := compile(t, "contact", storeless.Limit{Algorithm: algorithm, Quota: 5, Window: window * time.Second})
			c := newCodec(t, p, secret("leaked"))
			h := c.Holder(alice)
			names := strings.ReplaceAll(names, "%s", string(h.subject[:]))
			m := limiter.NewMemory(64, 1)
			candidate := limiter.Candidate{Key: m.Key(alice)}
			take := func(shown limiter.Tally) bool {
				candidate.Shown = shown
				_, v := m.Take(now, p, &candidate, 1)
				return v.Admitted
			}

			admitted, accepted := int64(0), 0
			count := func(shown limiter.Tally) {
				if take(shown) {
					admitted++
				}
			}
			forge := func(age, cur, prev int64) {
				text := fmt.Sprintf(`{"aud":"contact",%s,"exp":%d,"t":[%d,%d,%d,%d]}`,
					names, now.Unix()+2*window, p.ID(0), age, cur, prev)
				if got, err := h.Verify(now, sign(c.ring[0], text)); err == nil {
					accepted++
					count(got.Tally)
				}
			}
			r := random(6)
			for i := range rounds(1500) {
				// Ages from all of the range: products that leave 64 bits would
				// put a state anywhere, and let it overwrite the memory's.
				forge(r.Int64N(2*maxAge)-maxAge, r.Int64N(2), 0)
				forge(r.Int64N(1<<(1+r.IntN(53))), r.Int64N(2), r.Int64N(2))
				forge(-r.Int64N(1<<(1+r.IntN(53))), 0, r.Int64N(storeless.MaxQuota))
				forge(int64(i%5), 0, 0)
				count(limiter.Tally{})
			}
			require.Greater(t, accepted, 100)
			require.LessOrEqual(t, admitted, p.Capacity())
			require.False(t, take(limiter.Tally{}))
		})
	}
}
