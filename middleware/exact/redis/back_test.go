// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// What comes back is a kilobyte of the account at most, and no key of its own; and it is what
// package exact makes of it, whatever comes back, and when.
func TestWhatComesBackTakesAKilobyte(t *testing.T) {
	b := newBoth(t)
	s, c, clock := b.server, b.redis, b.clock
	s.at(clock.Now())
	p := exactkit.PerYear(t, storeless.MaxQuota)
	without := 27 + 17
	batches := 80
	if kit.Brief() {
		batches = 40
	}
	for name, comes := range map[string]func(rng *rand.Rand, n int) (refunds, reach int){
		"all":          func(*rand.Rand, int) (int, int) { return 251, 0 },
		"some":         func(*rand.Rand, int) (int, int) { return 10, 600 },
		"of long ago":  func(*rand.Rand, int) (int, int) { return 20, 9000 },
		"many, at end": func(_ *rand.Rand, n int) (int, int) { return max(0, n-batches+4) * 700, 9000 },
	} {
		rng := rand.New(rand.NewPCG(1, 4))
		memory := memory.New(0, clock.Now)
		call := exact.Call{Key: name, Cost: 2, Policy: p}
		var ours, theirs []exact.Receipt
		for batch := range batches {
			calls := make([]exact.Call, 251) // at any place of a byte
			for i := range calls {
				calls[i] = call
				ours = append(ours, exactkit.Take(t, memory, call).Receipt)
			}
			verdicts, err := c.Engine().TakeAll(t.Context(), calls)
			require.NoError(t, err)
			for _, v := range verdicts {
				theirs = append(theirs, v.Receipt)
			}
			refunds, reach := comes(rng, batch)
			for n := range refunds {
				i := len(ours) - 1 - n
				if reach > 0 && n < refunds-1 { // and the newest
					i = max(0, len(ours)-1-rng.IntN(reach))
				}
				require.Equal(t, memory.Refund(t.Context(), ours[i]), c.Counter.Refund(t.Context(), theirs[i]), "%s, batch %d, refund %d", name, batch, n)
			}
			size := s.size(c.Account(p, name))
			require.LessOrEqual(t, size, without+1024, name)
			if name == "all" {
				require.Equal(t, without+10, size)
			}
		}
		require.Equal(t, exactkit.Peek(t, memory, call), exactkit.Peek(t, c, call), name)
		require.Equal(t, ":1", s.do("DEL", c.Account(p, name)))
		require.Equal(t, ":1", s.do("DBSIZE"), "the clock")
	}
}

// What versions before have kept of what came back, a mark for each receipt, still counts.
func TestRefundsOfEarlierVersions(t *testing.T) {
	s, c := opened(t)
	p := exactkit.PerYear(t, 5)
	call := exact.Call{Key: "k", Cost: 1, Policy: p}
	var at time.Time
	for range 3 {
		at = exactkit.Take(t, c, call).Receipt.At
	}
	account := c.Account(p, "k")
	double := func(n float64) string { return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(n))) }
	for version, void := range map[string]float64{"\x02": 0, "\x03": 1} {
		t.Run(fmt.Sprint(version[0]), func(t *testing.T) {
			before := s.do("GET", account)
			defer s.do("SET", account, before, "EX", "1000")
			was := version + before[1:15] + double(3) + before[23:]
			if version == "\x03" {
				was += double(void) + double(0) + double(0) + "\x00\x00\x00\x00"
			}
			s.do("SET", account, was, "EX", "1000")
			receipt := func(serial string) exact.Receipt {
				return exact.Receipt{Key: "k", Cost: 1, Policy: p, At: at, Serial: serial}
			}
			s.do("SET", account+":r:2:"+strconv.FormatInt(at.UnixMicro(), 10), "1")
			require.ErrorIs(t, c.Refund(t.Context(), receipt("2")), exact.ErrNoRefund, "it came back before")
			if void == 0 {
				require.NoError(t, c.Refund(t.Context(), receipt("1")))
			}
			require.ErrorIs(t, c.Refund(t.Context(), receipt("1")), exact.ErrNoRefund, "a wrong clock has charged it, or it came back")
			require.NoError(t, c.Refund(t.Context(), receipt("3")))
			require.ErrorIs(t, c.Refund(t.Context(), receipt("3")), exact.ErrNoRefund)
			require.Equal(t, "\x04", s.do("GETRANGE", account, "0", "0"))
			require.Equal(t, "4", exactkit.Take(t, c, call).Receipt.Serial)
		})
	}
}
