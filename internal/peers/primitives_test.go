// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/storeless"
)

// BenchmarkRawTwoHMACs is the scale of all budgets: two HMAC-SHA256 over 180
// bytes with a reused state, the least that verifying a token and signing the
// next can cost. Its result is called raw.
func BenchmarkRawTwoHMACs(b *testing.B) { benchmarkHMAC(b, 2, 180) }

// BenchmarkMAC512 is the most that looking at one token may cost.
func BenchmarkMAC512(b *testing.B) { benchmarkHMAC(b, 1, token.MaxLen) }

func benchmarkHMAC(b *testing.B, times, size int) {
	h := hmac.New(sha256.New, secret())
	message := make([]byte, size)
	sum := make([]byte, 0, sha256.Size)
	measure(b, func() {
		for range b.N {
			for range times {
				h.Reset()
				h.Write(message)
				sum = h.Sum(sum[:0])
			}
		}
	})
	once := hmac.New(sha256.New, secret())
	once.Write(message)
	require.Equal(b, once.Sum(nil), sum)
}

// BenchmarkToken is verifying one token and signing the next, as a string: all
// that a request must have of package token. With a holder it is all that it
// has: the identity is hashed, too.
func BenchmarkToken(b *testing.B) {
	p, err := limiter.Compile(policy, []storeless.Limit{{Quota: int64(Plenty(1).Quota), Window: time.Hour}})
	require.NoError(b, err)
	codec, err := token.New([][]byte{secret()}, p)
	require.NoError(b, err)
	now := time.Now()
	who := []byte{'a', 10, 100, 100, 100}
	tally, _ := p.Step(now, limiter.Tally{}, 1)
	known := codec.Holder(who)
	shown := string(known.Append(nil, &tally))
	require.NotEmpty(b, shown)

	for _, part := range []struct {
		name   string
		holder func() token.Holder
	}{
		{"verify+sign", func() token.Holder { return known }},
		{"holder+verify+sign", func() token.Holder { return codec.Holder(who) }},
	} {
		b.Run("part="+part.name, func(b *testing.B) {
			var stack [token.MaxLen]byte
			var next string
			wrong := 0
			measure(b, func() {
				for range b.N {
					h := part.holder()
					t, err := h.Verify(now, shown)
					if err != nil {
						wrong++
					}
					next = string(h.Append(stack[:0], &t.Tally))
				}
			})
			require.Zero(b, wrong)
			require.Equal(b, shown, next, "the tally has not changed, nor must the token")
		})
	}
}
