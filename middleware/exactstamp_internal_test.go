// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
	"github.com/tallystick/tallystick/storeless"
)

// TestStampsFit: whoever has a token that fits can be told by it of a refusal, for as long as a
// counter can refuse: also where short windows are beside a bucket that owes for a year, and the
// tokens of shared tallies are longer than those of bought ones.
func TestStampsFit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UnixMicro()
	longest := 0
	for _, quota := range []int64{9, 99, 999} {
		for n := range 32 {
			name := strings.Repeat("a", n+1)
			bucket := storeless.Limit{Name: "b", Algorithm: storeless.TokenBucket, Quota: 1, Window: 640 * time.Second, Burst: 49_000}
			limits := []storeless.Limit{bucket}
			for i := 0; len(limits) < storeless.MaxLimits-1; i++ {
				l := storeless.Limit{Name: fmt.Sprint("w", i), Quota: quota, Window: time.Second}
				p, err := limiter.Compile(name, []storeless.Limit{l})
				require.NoError(t, err)
				if p.ID(0) >= 10_000_000 { // an id with all of its digits
					limits = append(limits, l)
				}
			}
			p, err := limiter.Compile(name, limits)
			require.NoError(t, err)
			marked, err := limiter.Compile(name, withStamp(p))
			require.NoError(t, err)
			codec, err := token.New([][]byte{bytes.Repeat([]byte("ab"), 16)}, marked)
			if err != nil {
				continue
			}
			const year = 49_000 * 640 // seconds
			tally := limiter.Tally{{At: now + (2*year+640)*1_000_000, Cur: year + 640}}
			for i := 1; i < p.Len(); i++ {
				tally[i] = limiter.State{At: now / 1_000_000, Cur: uint32(quota), Prev: uint32(quota)}
			}
			tally[p.Len()] = stampOf(&guardedcall.Refusal{Cost: 1, Said: now, Until: now + 2*year*1_000_000}, &guardedcall.Key{255, 255, 255})
			holder := codec.Holder([]byte("somebody"))
			tok := holder.Append(nil, &tally)
			require.NotEmpty(t, tok, "%d a second, a name of %d", quota, n+1)
			longest = max(longest, len(tok))
		}
	}
	require.Greater(t, longest, token.MaxLen-8)
}
