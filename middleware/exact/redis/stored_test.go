// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// An account that is written as Redis has it, and read, is the same: with everything that it can
// hold, and whatever has come back.
func TestStoredAccountIsTheSame(t *testing.T) {
	day := storeless.Limit{Name: "day", Algorithm: storeless.RollingDay, Quota: 1 << 20, Window: 24 * time.Hour}
	buckets := []storeless.Limit{
		{Name: "a", Algorithm: storeless.TokenBucket, Quota: 1 << 10, Window: time.Second, Burst: 1 << 10},
		{Name: "b", Algorithm: storeless.LeakyBucket, Quota: 1 << 10, Window: time.Second},
	}
	windows := []storeless.Limit{
		{Name: "sliding", Quota: 1 << 20, Window: time.Hour},
		{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 1 << 20, Window: 24 * time.Hour},
		{Name: "log", Algorithm: storeless.SlidingLog, Quota: exact.MaxLog, Window: time.Minute},
		day,
	}
	forms := map[byte]int{}
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limits := windows
		if seed%2 == 0 {
			limits = buckets
		}
		p := exactkit.Compile(t, limits...)
		now, a := time.Unix(1_800_000_000, 0), new(engine.Account)
		var receipts []exact.Receipt
		for range []int{1, 40, 9_000, 20_000}[seed/2%4] {
			now = now.Add(time.Duration(rng.Int64N(int64(40*time.Millisecond))) / 1000 * 1000)
			call := exact.Call{Key: "k", Cost: 1, Policy: p}
			if seed%2 == 0 && rng.IntN(3) == 0 {
				call.Ahead = time.Minute
			}
			if v := a.Take(now, &call); v.Admitted {
				receipts = append(receipts, v.Receipt)
			}
		}
		for _, r := range receipts[:len(receipts)-1] { // of what counts nothing, nothing is written
			if seed%3 > 0 && rng.Uint64N(3) < seed%3 {
				_ = a.Refund(now, &r)
			}
		}
		if seed%5 == 0 {
			a.Take(now, &exact.Call{Key: "k", Policy: p, Pause: time.Hour})
		}
		want := a.Snapshot()
		value, trails := packAccount(&want)
		forms[value[2]/partForm%4]++
		got, err := unpackAccount(string(value))
		require.NoError(t, err)
		for i := range got.Limits {
			if id := got.Limits[i].ID; isTrail(id) {
				got.Limits[i].Used, got.Limits[i].Charges = unpackTrail(trails[id])
			}
			got.Limits[i].Ends = want.Limits[i].Ends // which is not stored
		}
		got.Hold = want.Hold
		same, err := got.Account().AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, exactkit.Bytes(t, a), same, "seed %d", seed)
	}
	require.Positive(t, forms[formSome])
	require.Positive(t, forms[formRing])
}

// What counts nothing and was charged is no account that was cut, and has no limit when it is read.
func TestStoredAccountThatCountsNothing(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Quota: 5, Window: time.Hour})
	a, now := new(engine.Account), time.Unix(1_800_000_000, 0)
	v := a.Take(now, &exact.Call{Key: "k", Cost: 1, Policy: p})
	require.NoError(t, a.Refund(now, &v.Receipt))
	a.Take(now, &exact.Call{Key: "k", Policy: p, Pause: time.Hour})
	s := a.Snapshot()
	value, trails := packAccount(&s)
	require.Empty(t, trails)
	got, err := unpackAccount(string(value))
	require.NoError(t, err)
	require.Empty(t, got.Limits)
	require.Equal(t, []any{s.Serial, s.Floor, s.Paused, s.Latest}, []any{got.Serial, got.Floor, got.Paused, got.Latest})
	_, err = unpackAccount(string(value[:headSize]) + string(value[headSize+13:]))
	require.ErrorIs(t, err, errStored, "without the entry that it has")
}

// What is shorter than its head, or of a later version, is no account.
func TestStoredAccountThatIsCut(t *testing.T) {
	p := exactkit.Compile(t, storeless.Limit{Quota: 5, Window: time.Hour})
	a := new(engine.Account)
	a.Take(time.Unix(1_800_000_000, 0), &exact.Call{Key: "k", Cost: 1, Policy: p})
	s := a.Snapshot()
	value, _ := packAccount(&s)
	for n := range headSize {
		_, err := unpackAccount(string(value[:n]))
		require.ErrorIs(t, err, errStored, "%d of %d bytes", n, len(value))
	}
	value[0]++
	_, err := unpackAccount(string(value))
	require.ErrorIs(t, err, errStored)
}
