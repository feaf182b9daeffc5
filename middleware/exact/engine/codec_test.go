// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
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

// busy returns an account that has a history.
func busy(t testing.TB, seed uint64) (a engine.Account) {
	rng := rand.New(rand.NewPCG(seed, 1))
	clock := exacttest.NewClock()
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, every[:1+seed%6]...)}
	for range 200 {
		clock.Advance(time.Duration(rng.Int64N(int64(20 * time.Second))))
		if v := a.Take(clock.Now(), &call); v.Admitted && rng.IntN(10) == 0 {
			require.NoError(t, a.Refund(clock.Now(), &v.Receipt))
		}
	}
	return a
}

// ahead returns an account that has all that a key can have: debts, bookings with holes, a
// pause and IDs.
func ahead(t testing.TB, seed uint64) (a engine.Account) {
	rng := rand.New(rand.NewPCG(seed, 2))
	clock := exacttest.NewClock()
	var booked []exact.Receipt
	call := exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, bookable["requests, and a minute's"]...)}
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
	return a
}

func TestOtherBytesAreNoAccount(t *testing.T) {
	plain, rare := busy(t, 5), ahead(t, 5)
	var b []byte
	for _, a := range []*engine.Account{&rare, &plain} {
		b = exactkit.Bytes(t, a)
		for n := range len(b) {
			require.Error(t, new(engine.Account).UnmarshalBinary(b[:n]), "cut at %d", n)
		}
		require.Error(t, new(engine.Account).UnmarshalBinary(append(b, 0)))
	}
	// Charges that end in another order than they are written in.
	ordered := []byte{4, 0, 0, 1, 1, 5, 0, 0, 0, 0, 2, 20, 1, 10, 1, 0}
	require.NoError(t, new(engine.Account).UnmarshalBinary(ordered))
	ordered[13] = 9 // -5
	require.Error(t, new(engine.Account).UnmarshalBinary(ordered))
	b[0] = 5
	require.EqualError(t, new(engine.Account).UnmarshalBinary(b), "exact: an account in format 5, of a later version; this one knows 4")
	for b[0] = 1; b[0] < 4; b[0]++ {
		require.EqualError(t, new(engine.Account).UnmarshalBinary(b), fmt.Sprintf("exact: an account in format %d, of an earlier version, which is not read any more; this one knows 4", b[0]))
	}
	b[0] = 0
	require.EqualError(t, new(engine.Account).UnmarshalBinary(b), "exact: not the bytes of an account")
}

func FuzzAccount(f *testing.F) {
	for seed := range uint64(6) {
		for _, a := range []engine.Account{busy(f, seed), ahead(f, seed)} {
			f.Add(exactkit.Bytes(f, &a))
		}
	}
	for _, b := range kept(f) {
		f.Add(b)
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

// A forgetful drawer loses answers, or IDs.
type forgetful struct {
	*drawer
	lose   bool  // the answer of the next commit
	failed error // what it is taken for
	twice  bool  // it keeps no IDs
}

func (f *forgetful) answer(err error) error {
	if err == nil && f.lose {
		f.lose = false
		return f.failed
	}
	return err
}

func (f *forgetful) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if f.twice {
		call.ID = ""
	}
	v, err := f.drawer.Take(ctx, call)
	return v, f.answer(err)
}

func (f *forgetful) Refund(ctx context.Context, r exact.Receipt) error {
	return f.answer(f.drawer.Refund(ctx, r))
}

// suiteOf tests the example's counter: two of them are processes on one store, unless change has them be otherwise.
func suiteOf(change func(*forgetful)) error {
	clock := exacttest.NewClock()
	fresh := func() *drawer { return &drawer{bytes: map[string][]byte{}, now: clock.Now} }
	shared := fresh()
	return (&exacttest.Suite{
		Open: func() (exact.Counter, error) {
			f := &forgetful{drawer: shared, failed: fmt.Errorf("%w: the connection was cut", exact.ErrMaybeCounted)}
			if change != nil {
				change(f)
			}
			if f.drawer == nil {
				f.drawer = fresh()
			}
			return f, nil
		},
		Clock:      clock,
		LoseAnswer: func(c exact.Counter) { c.(*forgetful).lose = true },
	}).Test()
}

// What an author reads first counts exactly: an engine that stores accounts, and no more. So does it over several processes, and
// where the answer of a commit is lost.
func TestStoredAccountsAreACounter(t *testing.T) { require.NoError(t, suiteOf(nil)) }

// The suite names what such an engine does wrong.
func TestSuiteCatchesBrokenEngines(t *testing.T) {
	err := suiteOf(func(f *forgetful) { f.failed = exact.ErrNotCounted })
	require.ErrorContains(t, err, "an answer that is lost: a call that was counted")
	require.ErrorContains(t, err, "an answer of a refund that is lost: a refund that was given")
	err = suiteOf(func(f *forgetful) { f.twice = true })
	require.ErrorContains(t, err, "an answer that is lost: a call whose answer was lost, asked for again")
	require.ErrorContains(t, err, "an ID is known to all: ")
	err = suiteOf(func(f *forgetful) { f.drawer = nil })
	require.ErrorContains(t, err, "an ID is known to all: ")
	require.NotContains(t, err.Error(), "an answer that is lost")
}

// histories are what the accounts in testdata/accounts.json have behind them.
var histories = map[string]func(*testing.T, *past){
	// Of every limit: five calls, 7 s apart. The third was given back.
	"plain": func(t *testing.T, p *past) {
		p.call = exact.Call{Key: "k", Cost: 1, Policy: exactkit.Compile(t, every...)}
		for n := range 5 {
			p.clock.Advance(7 * time.Second)
			p.take(p.call)
			if n == 2 {
				require.NoError(t, p.refund(n))
			}
		}
	},
	// Ten calls under IDs, all but the first booked; two that were given back; a pause.
	"booked": func(t *testing.T, p *past) {
		p.call = exact.Call{Key: "k", Cost: 1, Ahead: exact.MaxAhead, Policy: exactkit.Compile(t,
			storeless.Limit{Algorithm: storeless.TokenBucket, Quota: 60, Window: time.Minute, Burst: 2},
			storeless.Limit{Name: "slow", Algorithm: storeless.LeakyBucket, Quota: 3600, Window: time.Hour})}
		for n := range 10 {
			p.call.ID = strconv.Itoa(n)
			p.take(p.call)
		}
		require.NoError(t, p.refund(4))
		require.NoError(t, p.refund(6))
		p.account.Take(p.clock.Now(), &exact.Call{Key: "k", Policy: p.call.Policy, Pause: 2 * time.Second})
	},
}

// A past is an account, and the receipts of its calls.
type past struct {
	account  engine.Account
	clock    *exacttest.Clock
	call     exact.Call
	receipts []exact.Receipt
}

func (p *past) take(call exact.Call) exact.Verdict {
	v := p.account.Take(p.clock.Now(), &call)
	if v.Admitted && !v.Replayed {
		p.receipts = append(p.receipts, v.Receipt)
	}
	return v
}

func (p *past) refund(n int) error { return p.account.Refund(p.clock.Now(), &p.receipts[n]) }

// kept returns the account of each history, as this version has written it.
func kept(t testing.TB) map[string][]byte {
	text := kit.Must(os.ReadFile("testdata/accounts.json"))(t)
	var inHex map[string]string
	require.NoError(t, json.Unmarshal(text, &inHex))
	accounts := make(map[string][]byte)
	for history, account := range inHex {
		accounts[history] = kit.Must(hex.DecodeString(account))(t)
	}
	return accounts
}

// What is stored is read by the versions that come: where the bytes of an account change, its version rises.
func TestAccountsAreWrittenAsTheyWere(t *testing.T) {
	for history, b := range kept(t) {
		p := &past{clock: exacttest.NewClock()}
		histories[history](t, p)
		require.Equal(t, hex.EncodeToString(b), hex.EncodeToString(exactkit.Bytes(t, &p.account)), history)
		var read engine.Account
		require.NoError(t, read.UnmarshalBinary(b))
		require.Equal(t, b, exactkit.Bytes(t, &read), history)
	}
}

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
		got := kit.Must(s.Account().AppendBinary(nil))(t)
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
	r := kit.Must(engine.ReadRecord(p.AccountName("k"), exactkit.Bytes(t, &a)))(t)
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
