// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// An account is longer while calls are booked, and as short as ever when none is any more:
// because all was given back, or because the moment of the last has come.
func TestAccountIsShortAgainAfterBookings(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
	account := b.redis.Account(p, "k")
	size := func() int { return b.size(account) }
	plain := exact.Call{Key: "k", Cost: 1, Policy: p}
	ahead := plain
	ahead.Ahead = time.Minute
	require.True(t, b.take(ahead, false, "the first").Admitted)
	require.Equal(t, 40, size(), "for now: nothing is booked")
	require.Equal(t, "embstr", b.do("OBJECT", "ENCODING", account))
	var booked []exact.Verdict
	for range 3 {
		booked = append(booked, b.take(ahead, false, "ahead"))
	}
	require.Equal(t, 74, size())
	const back = 11 // bytes of what came back
	require.True(t, b.refund(booked[1].Receipt, "a hole"))
	require.Equal(t, 74+16+back, size())
	require.False(t, b.take(plain, false, "behind what is booked").Admitted)
	require.Equal(t, 74+16+back, size())
	for _, i := range []int{0, 2} {
		require.True(t, b.refund(booked[i].Receipt, "all"))
	}
	require.Equal(t, 40+back, size())

	for range 3 {
		b.take(ahead, false, "ahead")
	}
	b.clock.Advance(time.Second)
	require.True(t, b.take(plain, false, "when they are over").Admitted)
	require.Equal(t, 40+back, size())
}

// Of more places than a line has, the first is forgotten: the account has a bound.
func TestLinesHaveSoManyHoles(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
	call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: exact.MaxAhead}
	var booked []exact.Receipt
	for range 2 * 70 {
		booked = append(booked, b.take(call, false, "booked").Receipt)
	}
	for i := 1; i < len(booked); i += 2 {
		require.True(t, b.refund(booked[i-1], "every other"))
	}
	require.Equal(t, 40+20+14+64*16+28, b.size(b.redis.Account(p, "k")), "and what came back")
	for i := range 66 {
		b.take(call, false, fmt.Sprint("into hole ", i))
	}
}

// Charges of a wrong clock are never refunded, also when their time has come; bookings are,
// before their time.
func TestRefundsOfAWrongClock(t *testing.T) {
	for name, bookings := range map[string]bool{"charged": false, "booked": true} {
		t.Run(name, func(t *testing.T) {
			b := newBoth(t)
			p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Hour, Burst: 5})
			call := exact.Call{Key: "k", Cost: 1, Policy: p}
			if bookings {
				call.Ahead = exact.MaxAhead
			}
			var wrong exact.Receipt
			b.clock.Advance(48 * time.Hour)
			for range 7 {
				if v := b.take(call, false, "by a wrong clock"); v.Admitted {
					wrong = v.Receipt
				}
			}
			b.clock.Advance(-48 * time.Hour)
			require.False(t, b.refund(wrong, "before anything is charged"))
			for range 5 {
				require.True(t, b.take(call, false, "anew").Admitted)
			}
			require.False(t, b.refund(wrong, "of a wrong clock"))
			right := b.take(exact.Call{Key: "k", Cost: 1, Policy: p, Past: true}, false, "past").Receipt
			b.clock.Advance(time.Minute)
			require.True(t, b.refund(right, "after it"))
			b.clock.Advance(48*time.Hour - time.Minute)
			for range 5 {
				require.True(t, b.take(call, false, "when its time has come").Admitted)
			}
			require.False(t, b.refund(wrong, "when its time has come"))
		})
	}
}

// Keys of accounts with bookings expire as others do, also those of IDs; and an ID is known
// to both scripts.
func TestEveryKeyOfBookingsExpires(t *testing.T) {
	s, c := opened(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 60, Window: time.Minute})
	for i := range 50 {
		call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: strconv.Itoa(i), Ahead: exact.MaxAhead}
		v := exactkit.Take(t, c, call)
		require.True(t, v.Admitted)
		again := exactkit.Take(t, c, call)
		require.True(t, again.Replayed)
		require.Equal(t, v.Receipt, again.Receipt)
		call.Ahead = 0
		require.Equal(t, v.Receipt, exactkit.Take(t, c, call).Receipt, "by the other script")
		if i%3 == 0 {
			require.NoError(t, c.Refund(t.Context(), v.Receipt))
			require.ErrorIs(t, c.Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
		}
	}
	s.expires(0)
	for _, key := range []string{":s:0", ":s:1"} {
		ttl, err := strconv.Atoi(strings.TrimPrefix(s.do("TTL", c.Account(p, "k")+key), ":"))
		require.NoError(t, err)
		require.LessOrEqual(t, ttl, 14, "IDs are kept for a short time")
	}
}

// Serials that were made up give nothing back, and break nothing.
func TestSerialsOfBookingsThatAreMadeUp(t *testing.T) {
	b := newBoth(t)
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second}), Ahead: time.Minute}
	var real exact.Receipt
	for range 5 {
		real = b.take(call, false, "booked").Receipt
	}
	for _, serial := range []string{"", "_", "5_", "5_1", "5_1_0_0", "5_0_0", "5_1_!", "5_1_0 ", "x_1_0", "6_1_0", "0_1_0", "5_zzzzzzzz_0", "-5_1_0"} {
		made := real
		made.Serial = serial
		require.False(t, b.refund(made, serial), "serial %q", serial)
	}
	require.True(t, b.refund(real, "the real one"))
}

// A serial that tells of a place before its line gives back what is on the line alone.
func TestPlacesBeforeTheirLine(t *testing.T) {
	b := newBoth(t)
	p := exactkit.Compile(t, storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Second, Burst: 4})
	call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}
	var made exact.Receipt
	for range 6 {
		made = b.take(call, false, "booked").Receipt
	}
	number, _, _ := strings.Cut(made.Serial, "_")
	made.Serial = number + "_1_-zzzz"
	require.True(t, b.refund(made, "made up"))
	for i := range 8 {
		b.take(call, false, fmt.Sprint("behind it ", i))
	}
}

// Lines that a clock that was wrong has left are forgotten, also those of other policies.
func TestLinesOfAWrongClock(t *testing.T) {
	b := newBoth(t)
	book := func(name string, size int) {
		p := exactkit.Compile(t, storeless.Limit{Name: name, Algorithm: storeless.LeakyBucket, Quota: 10, Window: time.Second})
		c := b.redis
		b.at(b.clock.Now())
		call := exact.Call{Key: "k", Cost: 1, Policy: p, Ahead: time.Minute}
		both, err := c.Engine().TakeAll(t.Context(), []exact.Call{call, call}) // as one step
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, both[1].Wait)
		require.Equal(t, size, b.size(c.Account(p, "k")), name)
	}
	b.clock.Advance(48 * time.Hour)
	book("wrong", 74)
	b.clock.Advance(-48 * time.Hour)
	book("right", 84) // and of which serials nothing comes back
}
