// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
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
		got := kit.Must(unpackAccount(string(value)))(t)
		for i := range got.Limits {
			if id := got.Limits[i].ID; isTrail(id) {
				got.Limits[i].Used, got.Limits[i].Charges = unpackTrail(trails[id])
			}
			got.Limits[i].Ends = want.Limits[i].Ends // which is not stored
		}
		got.Hold = want.Hold
		same := kit.Must(got.Account().AppendBinary(nil))(t)
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

// The slots of keys, as the specification of clusters has them, and the nodes of slots.
func TestSlots(t *testing.T) {
	nodes := new([slots]uint8)
	nodes[12182] = 7
	var l layout
	for tag, want := range map[string]uint16{"123456789": 0x31c3, "foo": 12182, "": 0} {
		key := "tallystick:{" + tag + "}:i:x{y}"
		l.nodeOf.Store(nil)
		require.Equal(t, want, slot(key), tag)
		require.Zero(t, l.part(key), "there is no cluster")
		l.nodeOf.Store(nodes)
		require.EqualValues(t, nodes[want], l.part(key))
	}
}

// docs/checks.md prints each line as it is written, under the line's own code, and has no other of this package.
func TestAlarmsAreOnThePage(t *testing.T) {
	page := kit.Must(os.ReadFile("../../../docs/checks.md"))(t)
	all := map[string]func(*alarms){
		"redis-clock-jumped": func(a *alarms) { a.wrongClock(2*time.Hour + 3*time.Millisecond) },
		"redis-away":         func(a *alarms) { a.away(errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")) },
		"redis-evicts":       func(a *alarms) { a.evicts(errEvicts) },
		"redis-silent":       func(a *alarms) { a.silent(errors.New("NOPERM this user has no permissions")) },
		"redis-emptied":      func(a *alarms) { a.emptied(48211, 0) },
		"redis-unreadable": func(a *alarms) {
			a.unreadable("tallystick:{a6Zp8cVNmXlFE1uLGqCh3w}", errors.New("DAMAGED it is no account of this package, or not all of one"))
		},
	}
	for code, ring := range all {
		var log bytes.Buffer
		a := &alarms{log: slog.New(slog.NewTextHandler(&log, nil))}
		ring(a)
		line := regexp.MustCompile(`^time=\S+ `).ReplaceAllString(log.String(), "")
		require.Contains(t, line, " code="+code+" ")
		require.Contains(t, string(page), "\n### "+code+"\n")
		require.Contains(t, string(page), "```text\n"+line+"```\n")
	}
	require.Len(t, regexp.MustCompile(`(?m)^### redis-`).FindAll(page, -1), len(all))
	require.ElementsMatch(t, slices.Collect(maps.Keys(all)), codes(t))
}

// Most of few keys is more than half of them: one of three is left where a call has come before the question.
func TestLossOfFewKeysIsTold(t *testing.T) {
	for had, has := range map[int64]int64{1: 0, 2: 0, 3: 1, 4: 2, 5: 3} {
		var log bytes.Buffer
		w := watch{alarms: &alarms{log: slog.New(slog.NewTextHandler(&log, nil))}}
		w.note("", held{"before", had})
		w.note("", held{"after", has})
		require.Equal(t, had <= 3, log.Len() > 0, "%d of %d", has, had)
	}
}

// codes are those that the source of the package tells of.
func codes(t *testing.T) (all []string) {
	t.Helper()
	files := kit.Must(filepath.Glob("*.go"))(t)
	for _, file := range files {
		parsed := kit.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			method, called := call.Fun.(*ast.SelectorExpr)
			if code, literal := call.Args[1].(*ast.BasicLit); called && literal && method.Sel.Name == "tell" {
				all = append(all, strings.Trim(code.Value, `"`))
			}
			return true
		})
	}
	return all
}

// A serverClock is never early, however long the calls that it learns from have waited,
// and knows nothing for long.
func TestServerClock(t *testing.T) {
	const at = int64(2_000_000_000_000_000) // the server's time, where the test begins
	start := time.Unix(1_800_000_000, 0)
	later := func(d time.Duration) time.Time { return start.Add(d) }
	var c serverClock
	require.Zero(t, c.at(start, start), "nothing is known")

	c.saw(at+30_000, start, false) // waited for 30 ms
	require.Equal(t, at+80_000, c.at(later(50*time.Millisecond), later(50*time.Millisecond)))
	require.Equal(t, at+3600_030_000, c.at(start, later(time.Hour)), "of what is known now")
	c.saw(at+1_000_100, later(time.Second), false) // waited for 0.1 ms
	require.Equal(t, at+2_000_100, c.at(later(2*time.Second), later(2*time.Second)))
	c.saw(at+3_040_000, later(3*time.Second), false)
	require.Equal(t, at+4_000_100, c.at(later(4*time.Second), later(4*time.Second)), "the least counts")

	c.saw(at+11_020_000, later(11*time.Second), false)
	require.Equal(t, at+11_000_100, c.at(later(11*time.Second), later(11*time.Second)), "also of the time before")
	c.saw(at+22_020_000, later(22*time.Second), false)
	require.Equal(t, at+22_020_000, c.at(later(22*time.Second), later(22*time.Second)), "but not for ever: clocks drift")
	require.Zero(t, c.at(later(43*time.Second), later(43*time.Second)), "too old")

	c.saw(at+22_020_000, later(22*time.Second), false)
	c.saw(at+3600_000_000, later(23*time.Second), true)
	require.Equal(t, at+3600_000_000, c.at(later(23*time.Second), later(23*time.Second)), "the clock was set")
	c.saw(at, later(24*time.Second), false)
	require.Equal(t, at, c.at(later(24*time.Second), later(24*time.Second)), "set back: later than it is told")
}
