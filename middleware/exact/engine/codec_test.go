// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// every has one limit of every algorithm.
var every = []storeless.Limit{
	{Name: "sliding", Quota: 500, Window: time.Hour},
	{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour},
	{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 600, Window: time.Hour, Burst: 30},
	{Name: "meter", Algorithm: storeless.LeakyBucket, Quota: 3600, Window: time.Hour},
	{Name: "log", Algorithm: storeless.SlidingLog, Quota: 300, Window: time.Hour},
	{Name: "day", Algorithm: storeless.RollingDay, Quota: 5000, Window: day},
}

// busy returns an account that has a history, and the last receipt given back.
func busy(t testing.TB, seed uint64) (a engine.Account, clock *exacttest.Clock, call exact.Call, refunded exact.Receipt) {
	rng := rand.New(rand.NewPCG(seed, 1))
	clock = exacttest.NewClock()
	call = exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, every[:1+seed%6]...)}
	for range 200 {
		clock.Advance(time.Duration(rng.Int64N(int64(20 * time.Second))))
		if v := a.Take(clock.Now(), &call); v.Admitted && rng.IntN(10) == 0 {
			require.NoError(t, a.Refund(clock.Now(), &v.Receipt))
			refunded = v.Receipt
		}
	}
	return a, clock, call, refunded
}

// An account that was stored and loaded decides as the one in memory.
func TestAccountOutlivesItsBytes(t *testing.T) {
	for seed := range uint64(24) {
		a, clock, call, refunded := busy(t, seed)
		b, err := a.AppendBinary([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, "before", string(b[:6]))
		var loaded engine.Account
		require.NoError(t, loaded.UnmarshalBinary(b[6:]))
		require.Equal(t, b[6:], exactkit.Bytes(t, &loaded))
		clock.Advance(-time.Hour) // a restart on a machine whose clock is behind
		require.Equal(t, a.Take(clock.Now(), &call), loaded.Take(clock.Now(), &call))
		clock.Advance(time.Hour)
		require.ErrorIs(t, loaded.Refund(clock.Now(), &refunded), exact.ErrNoRefund, "it was given back before")
		for range 300 {
			clock.Advance(9 * time.Second)
			want, got := a.Take(clock.Now(), &call), loaded.Take(clock.Now(), &call)
			require.Equal(t, want, got)
		}
	}
}

// ahead returns an account that has all that a key can have: debts, bookings with holes, a
// pause and IDs.
func ahead(t testing.TB, seed uint64) (a engine.Account, clock *exacttest.Clock, call exact.Call, booked []exact.Receipt) {
	rng := rand.New(rand.NewPCG(seed, 2))
	clock = exacttest.NewClock()
	call = exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, bookable["requests, and a minute's"]...)}
	for i := range 20 {
		asks := call
		asks.Ahead, asks.ID = exact.MaxAhead, strconv.Itoa(i)
		if i == 3 {
			asks.Ahead, asks.Past = 0, true
		}
		v := a.Take(clock.Now(), &asks)
		require.True(t, v.Admitted)
		if v.Wait > 0 {
			booked = append(booked, v.Receipt)
		}
	}
	for range 5 {
		i := rng.IntN(len(booked))
		require.NoError(t, a.Refund(clock.Now(), &booked[i]))
		booked = slices.Delete(booked, i, i+1)
	}
	require.True(t, a.Take(clock.Now(), &exact.Call{Key: "k", Policy: call.Policy, Pause: 2 * time.Second}).Admitted)
	return a, clock, call, booked
}

// So does one that has bookings, holes, a pause and IDs.
func TestBookingsOutliveTheirBytes(t *testing.T) {
	for seed := range uint64(24) {
		a, clock, call, booked := ahead(t, seed)
		b := exactkit.Bytes(t, &a)
		var loaded engine.Account
		require.NoError(t, loaded.UnmarshalBinary(b))
		require.Equal(t, b, exactkit.Bytes(t, &loaded))
		for n := range len(b) {
			require.Error(t, new(engine.Account).UnmarshalBinary(b[:n]), "cut at %d", n)
		}
		require.Error(t, new(engine.Account).UnmarshalBinary(append(b, 0)))
		for i := range 40 {
			clock.Advance(70 * time.Millisecond)
			call.Ahead, call.ID = exact.MaxAhead, ""
			if i%4 == 0 {
				call.ID = strconv.Itoa(i)
			}
			want, got := a.Take(clock.Now(), &call), loaded.Take(clock.Now(), &call)
			require.True(t, want.Receipt.At.Equal(got.Receipt.At))
			want.Receipt.At = got.Receipt.At
			require.Equal(t, want, got)
			if i%5 == 0 && len(booked) > i/5 {
				require.Equal(t, a.Refund(clock.Now(), &booked[i/5]), loaded.Refund(clock.Now(), &booked[i/5]))
			}
		}
	}
}

func TestOtherBytesAreNoAccount(t *testing.T) {
	a, _, _, _ := busy(t, 5)
	b := exactkit.Bytes(t, &a)
	for n := range len(b) {
		require.Error(t, new(engine.Account).UnmarshalBinary(b[:n]), "cut at %d", n)
	}
	require.Error(t, new(engine.Account).UnmarshalBinary(append(b, 0)))
	// Charges that end in another order than they are written in.
	ordered := []byte{2, 0, 0, 1, 1, 5, 0, 0, 0, 0, 2, 20, 1, 10, 1, 0}
	require.NoError(t, new(engine.Account).UnmarshalBinary(ordered))
	ordered[13] = 9 // -5
	require.Error(t, new(engine.Account).UnmarshalBinary(ordered))
	b[0] = 5
	require.EqualError(t, new(engine.Account).UnmarshalBinary(b), "exact: an account in format 5, of a later version; this one knows 4")
	b[0] = 0
	require.EqualError(t, new(engine.Account).UnmarshalBinary(b), "exact: not the bytes of an account")
}

func FuzzAccount(f *testing.F) {
	for seed := range uint64(6) {
		a, _, _, _ := busy(f, seed)
		b, _ := a.AppendBinary(nil)
		f.Add(b)
		a, _, _, _ = ahead(f, seed)
		b, _ = a.AppendBinary(nil)
		f.Add(b)
	}
	for _, history := range earlier(f) {
		for _, b := range history {
			f.Add(b)
		}
	}
	policy, buckets := exactkit.Compile(f, every...), exactkit.Compile(f, bookable["requests, and a minute's"]...)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a engine.Account
		if a.UnmarshalBinary(b) != nil {
			return
		}
		// What was read is written the same way, and can be counted with.
		once, _ := a.AppendBinary(nil)
		var again engine.Account
		require.NoError(t, again.UnmarshalBinary(once))
		twice, _ := again.AppendBinary(nil)
		require.Equal(t, once, twice)
		clock := exacttest.NewClock()
		for range 3 {
			a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: policy})
			a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 3, Policy: policy, Past: true, ID: "a"})
			v := a.Take(clock.Now(), &exact.Call{Key: "k", Cost: 1, Policy: buckets, Ahead: exact.MaxAhead})
			a.Refund(clock.Now(), &v.Receipt)
			a.Expires()
		}
	})
}

// reload has an account written and read.
func reload(t testing.TB, a *engine.Account) {
	t.Helper()
	b := exactkit.Bytes(t, a)
	*a = engine.Account{}
	require.NoError(t, a.UnmarshalBinary(b))
}
