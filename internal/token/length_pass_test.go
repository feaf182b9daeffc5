// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// TestLongestOfPasses: a pass may leak more slowly than any quota of its window can say, and is
// owed so much more.
func TestLongestOfPasses(t *testing.T) {
	limits := []storeless.Limit{{Quota: 1, Window: time.Hour}}
	for n := 0; len(limits) < storeless.MaxLimits; n++ {
		l := storeless.Limit{Name: fmt.Sprint("l", n), Algorithm: storeless.LeakyBucket, Quota: 1, Window: 61 * time.Minute}
		if compile(t, "p", l).ID(0) >= 10_000_000 { // an id with all of its digits
			limits = append(limits, l)
		}
	}
	p := compile(t, "contact", limits...)
	pass, fm := p.Pass(time.Hour), newFormat(p)
	tally := limiter.NewMemory(1, p.Len()).Record(now, pass, &limiter.Candidate{}, 8)
	own := Own{ID: [9]byte{1}, Expires: now.Unix() + 1, Bound: true}
	said, err := json.Marshal(fm.claims([]byte("AAAAAAAA"), own, own.Expires, &tally))
	require.NoError(t, err)
	require.Contains(t, string(said), ",-18059000002,10861,0]", "two intervals of two hours, and a window")
	length := payloadAt + (len(said)*8+5)/6 + 1 + signatureLen
	require.LessOrEqual(t, length, fm.longest([]*limiter.Policy{p, pass}))
}
