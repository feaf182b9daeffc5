// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// A snapshot is all of an account, but for the IDs that it remembers.
func TestSnapshotIsAllOfAnAccount(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limits := []storeless.Limit{{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1 << 10, Window: time.Second}}
		if seed%2 == 0 {
			limits = append(limits, storeless.Limit{Name: "sliding", Quota: 1 << 20, Window: time.Hour},
				storeless.Limit{Name: "log", Algorithm: storeless.SlidingLog, Quota: exact.MaxLog, Window: time.Second})
		}
		p := exactkit.Compile(t, limits...)
		now, a := time.Unix(1_800_000_000, 0), new(engine.Account)
		for range []int{1, 30, 3_000}[seed%3] {
			now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
			call := exact.Call{Key: "k", Cost: 1, Policy: p}
			if seed%2 == 1 && rng.IntN(3) == 0 {
				call.Ahead = time.Minute
			}
			if v := a.Take(now, &call); v.Admitted && rng.IntN(3) == 0 {
				require.NoError(t, a.Refund(now, &v.Receipt))
			}
		}
		if seed%5 == 0 {
			a.Take(now, &exact.Call{Key: "k", Policy: p, Pause: time.Hour})
		}
		want := exactkit.Bytes(t, a)
		s := a.Snapshot()
		got, err := s.Account().AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, want, got, seed)
	}
}

// A record is of an account that has a name, and is the caller's own.
func TestRecords(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	from, to := memory.New(0, clock), memory.New(0, clock)
	p := exactkit.Compile(t, storeless.Limit{Quota: 10, Window: time.Hour, Algorithm: storeless.FixedWindow})
	call := exact.Call{Key: "k", Cost: 1, Policy: p, ID: "an ID"}
	exactkit.Take(t, from, call)
	copied, kept, err := engine.Copy(t.Context(), to, from)
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 0}, [2]int{copied, kept})
	v := exactkit.Take(t, to, call)
	require.False(t, v.Replayed, "IDs are not copied")
	require.EqualValues(t, 8, v.Limits[0].Remaining)
	require.EqualValues(t, 9, exactkit.Left(t, from, call), "each counts for itself")

	exactkit.Take(t, to, exact.Call{Key: "another", Cost: 1, Policy: p})
	copied, kept, err = engine.Copy(t.Context(), to, from)
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 1}, [2]int{copied, kept})
	copied, kept, err = engine.Copy(t.Context(), from, to)
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 1}, [2]int{copied, kept})

	now = now.Add(2 * time.Hour)
	late := memory.New(0, clock)
	_, _, err = engine.Copy(t.Context(), late, from)
	require.NoError(t, err)
	require.NoError(t, late.Each(t.Context(), func(engine.Record) error { t.Error("it counts nothing any more"); return nil }))

	// A record is a copy, of what its counter has and of what another has made of it.
	var a engine.Account
	require.True(t, a.Take(now, &call).Admitted)
	r, err := engine.ReadRecord(p.AccountName("k"), exactkit.Bytes(t, &a))
	require.NoError(t, err)
	own := memory.New(0, clock)
	require.NoError(t, own.Restore(t.Context(), r))
	exactkit.Take(t, own, call)
	v = r.Account.Take(now, &call)
	require.False(t, v.Replayed, "no ID is in it")
	require.EqualValues(t, 8, v.Limits[0].Remaining)

	for _, r := range []engine.Record{{}, {Name: p.AccountName("k")}, {Name: "k", Account: new(engine.Account)}} {
		require.ErrorIs(t, to.Restore(t.Context(), r), exact.ErrNotCounted)
	}
	_, err = engine.ReadRecord("k", nil)
	require.ErrorContains(t, err, "named by 16 bytes, not 1")
	_, err = engine.ReadRecord(p.AccountName("k"), []byte{99})
	require.ErrorContains(t, err, "later version")
}
