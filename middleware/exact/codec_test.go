// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
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
func busy(t testing.TB, seed uint64) (a exact.Account, clock *exacttest.Clock, call exact.Call, refunded exact.Receipt) {
	rng := rand.New(rand.NewPCG(seed, 1))
	clock = exacttest.NewClock()
	call = exact.Call{Key: "k", Cost: 1, Policy: compile(t, every[:1+seed%6]...)}
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
		var loaded exact.Account
		require.NoError(t, loaded.UnmarshalBinary(b[6:]))
		again, err := loaded.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, b[6:], again)
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

// Accounts as earlier versions wrote them, and this one, of every limit: five calls, 7 s apart, of which the
// third was given back.
var earlier = map[int]string{
	1: "0180f8cca08cb88bfb2f0506d6d5bd02c0b0faef0c80cc3a040000f3bfec05c0b0faef0c80cc3a04000082f49a24e8f8f9ef0c000000048098a1dd81888dfb2f018098dc93340180b0b8a768018098dc9334018f8fd528fa8684f00c0000000180e0b2d7d8deb2fb2f04d4819e03c0b0faef0c80f1ecc9ebe6910600000081f38905c0b0faef0c80c48ac5ebe69106000000010380e0b2d7d8deb2fb2f",
	2: "0280f8cca08cb88bfb2f8080f89492a5270506d6d5bd02c0b0faef0c80cc3a040000f3bfec05c0b0faef0c80cc3a04000082f49a24e8f8f9ef0c000000048098a1dd81888dfb2f018098dc93340180b0b8a768018098dc9334018f8fd528fa8684f00c0000000180e0b2d7d8deb2fb2f04d4819e03c0b0faef0c80f1ecc9ebe6910600000081f38905c0b0faef0c80c48ac5ebe69106000000010380e0b2d7d8deb2fb2f",
	3: "0380f8cca08cb88bfb2f8080f89492a5270506d6d5bd02c0b0faef0c80cc3a040000f3bfec05c0b0faef0c80cc3a04000082f49a24e8f8f9ef0c000000048098a1dd81888dfb2f018098dc93340180b0b8a768018098dc9334018f8fd528fa8684f00c0000000180e0b2d7d8deb2fb2f04d4819e03c0b0faef0c80f1ecc9ebe6910600000081f38905c0b0faef0c80c48ac5ebe69106000000010380e0b2d7d8deb2fb2f00000000",
	4: "0480f8cca08cb88bfb2f8080f89492a527f6ba90c4ebe6910606d6d5bd02c0b0faef0c80cc3a040000f3bfec05c0b0faef0c80cc3a04000082f49a24e8f8f9ef0c000000048098a1dd81888dfb2f018098dc93340180b0b8a768018098dc9334018f8fd528fa8684f00c0000000180e0b2d7d8deb2fb2f04d4819e03c0b0faef0c80f1ecc9ebe6910600000081f38905c0b0faef0c80c48ac5ebe6910600000001050108",
}

// What an earlier version has stored is read, and counted on with.
func TestAccountsOfEarlierVersionsAreRead(t *testing.T) {
	for version, text := range earlier {
		b, err := hex.DecodeString(text)
		require.NoError(t, err)
		require.EqualValues(t, version, b[0])
		var a exact.Account
		require.NoError(t, a.UnmarshalBinary(b), "version %d", version)
		clock := exacttest.NewClock()
		clock.Advance(35 * time.Second)
		call := exact.Call{Key: "k", Cost: 1, Policy: compile(t, every...)}
		third := exact.Receipt{Key: "k", Cost: 1, Policy: call.Policy, At: clock.Now().Add(-14 * time.Second), Serial: "3"}
		require.ErrorIs(t, a.Refund(clock.Now(), &third), exact.ErrNoRefund, "it was given back before")
		v := a.Peek(clock.Now(), &call)
		require.False(t, v.Admitted, "the meter")
		for i, left := range []int64{496, 596, 29, 0, 296, 4996} {
			require.Equal(t, left, v.Limits[i].Remaining, "version %d, limit %d", version, i)
		}
		clock.Advance(-10 * time.Second)
		require.Equal(t, 11*time.Second, a.Peek(clock.Now(), &call).Wait, "it stands still")
		clock.Advance(11 * time.Second)
		v = a.Take(clock.Now(), &call)
		require.True(t, v.Admitted)
		require.Equal(t, "6", v.Receipt.Serial)
		now, err := a.AppendBinary(nil)
		require.NoError(t, err)
		require.EqualValues(t, 4, now[0], "what came back is said anew")
	}
}

// ahead returns an account that has all that a key can have: debts, bookings with holes, a
// pause and IDs.
func ahead(t testing.TB, seed uint64) (a exact.Account, clock *exacttest.Clock, call exact.Call, booked []exact.Receipt) {
	rng := rand.New(rand.NewPCG(seed, 2))
	clock = exacttest.NewClock()
	call = exact.Call{Key: "k", Cost: 1, Policy: compile(t, bookable["requests, and a minute's"]...)}
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
		b, err := a.AppendBinary(nil)
		require.NoError(t, err)
		var loaded exact.Account
		require.NoError(t, loaded.UnmarshalBinary(b))
		again, err := loaded.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, b, again)
		for n := range len(b) {
			require.Error(t, new(exact.Account).UnmarshalBinary(b[:n]), "cut at %d", n)
		}
		require.Error(t, new(exact.Account).UnmarshalBinary(append(b, 0)))
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
	b, err := a.AppendBinary(nil)
	require.NoError(t, err)
	for n := range len(b) {
		require.Error(t, new(exact.Account).UnmarshalBinary(b[:n]), "cut at %d", n)
	}
	require.Error(t, new(exact.Account).UnmarshalBinary(append(b, 0)))
	// Charges that end in another order than they are written in.
	ordered := []byte{2, 0, 0, 1, 1, 5, 0, 0, 0, 0, 2, 20, 1, 10, 1, 0}
	require.NoError(t, new(exact.Account).UnmarshalBinary(ordered))
	ordered[13] = 9 // -5
	require.Error(t, new(exact.Account).UnmarshalBinary(ordered))
	b[0] = 5
	require.EqualError(t, new(exact.Account).UnmarshalBinary(b), "exact: not the bytes of an account, or of a later version")
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
	for _, text := range earlier {
		b, _ := hex.DecodeString(text)
		f.Add(b)
	}
	policy, buckets := compile(f, every...), compile(f, bookable["requests, and a minute's"]...)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a exact.Account
		if a.UnmarshalBinary(b) != nil {
			return
		}
		// What was read is written the same way, and can be counted with.
		once, _ := a.AppendBinary(nil)
		var again exact.Account
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
