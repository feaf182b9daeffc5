// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run TestAllocations -memprofilerate 1 -memprofile mem.out ./pow,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// TestAllocations: neither a good proof nor a flood of bad ones makes garbage.
func TestAllocations(t *testing.T) {
	is := newIssuer(t, secretA)
	proof := solved(t, is, 16)
	forged := strings.Replace(proof, proof[100:104], "AAAA", 1)
	huge := strings.Repeat(proof, 1<<16)
	verify := func(b Binding, p string, now time.Time) func() {
		return func() { _, _ = is.Verify(now, b, p) }
	}
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"issue":       {1, func() { _, _ = is.Issue(epoch, alice, 16) }},
		"verify":      {0, verify(alice, proof, epoch)},
		"forged":      {0, verify(alice, forged, epoch)},
		"expired":     {0, verify(alice, proof, time.Time{})},
		"binding":     {0, verify(Binding{}, proof, epoch)},
		"wrong":       {0, verify(alice, proof+"0", epoch)},
		"huge":        {0, verify(alice, huge, epoch)},
		"huge answer": {0, verify(alice, proof+strings.Repeat("1", 300), epoch)},
		"alphabet":    {0, verify(alice, "!"+proof[1:], epoch)},
		"parse huge":  {0, func() { _, _ = parse(huge) }},
		"field huge":  {0, func() { _, _ = ParseHeader(huge) }},
	} {
		t.Run(name, func(t *testing.T) {
			if kit.Race {
				// The race detector makes sync.Pool forget at random.
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 10 {
					c.f()
				}
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(huge)))
				return
			}
			require.LessOrEqual(t, testing.AllocsPerRun(1000, c.f), c.most, moreAllocations)
		})
	}
}

func TestSolve(t *testing.T) {
	is := newIssuer(t, secretA)
	c := issued(t, is, 1<<15)
	want := proofOf(t, is, c.Text)
	for _, workers := range []int{-1, 0, 1, 2, 3, 8, 9, 100} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			defer requireNoLeak(t)()
			got := kit.Must(Solve(t.Context(), c.Text, SolveOptions{Workers: workers}))(t)
			require.Equal(t, want, got)
		})
	}
	t.Run("work 0", func(t *testing.T) {
		c := issued(t, is, 0)
		got := kit.Must(Solve(t.Context(), c.Text, SolveOptions{}))(t)
		require.Equal(t, c.Text+"~", got)
	})
	for _, k := range []uint8{1, 3, 16} {
		t.Run(fmt.Sprint("k ", k), func(t *testing.T) {
			text := seal(is, 0, header{k: k, span: 50})
			numbers := answersOf8(is, text)
			got := kit.Must(Solve(t.Context(), text, SolveOptions{}))(t)
			want := make([]uint32, k)
			for i := range want {
				want[i] = numbers[i%puzzles]
			}
			require.Equal(t, string(appendProof(nil, text, want)), got)
		})
	}
}

// answersOf8 are the first eight answers whatever k is; seal repeats them.
func answersOf8(is *Issuer, text string) [puzzles]uint32 {
	w := newWorkspace(is.ring.keys)
	var h header
	raw, _ := h.decode(&w.raw, text)
	return w.numbers(&w.keys[0], raw[:headerLen], h.span)
}

func TestSolveRefuses(t *testing.T) {
	is := newIssuer(t, secretA)
	def := issued(t, is, DefaultWork)
	at := func(k uint8, span uint32) string {
		raw := make([]byte, rawLen(k))
		h := header{k: k, span: span}
		h.append(raw[:0])
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	for _, c := range []struct {
		name, text string
		most       uint64
		want       error
	}{
		{"above the cap by one", def.Text, DefaultWork - 1, ErrTooMuchWork},
		{"above the default cap", at(8, defaultCap/4+1), 0, ErrTooMuchWork},
		{"R huge", at(16, math.MaxUint32), 0, ErrTooMuchWork},
		{"R huge, one puzzle", at(1, math.MaxUint32), MaxWork / 4, ErrTooMuchWork},
		{"R 0", at(8, 0), 0, ErrMalformed},
		{"k 0 with R", at(0, 1), 0, ErrMalformed},
		{"k 17", at(17, 16), 0, ErrMalformed},
		{"k 255", at(255, 16), 0, ErrMalformed},
		{"too short for k", at(8, 16)[:128], 0, ErrMalformed},
		{"too long for k", at(8, 16) + "AAAAAAAA", 0, ErrMalformed},
		{"empty", "", 0, ErrMalformed},
		{"a proof", def.Text + "~1.2.3.4.5.6.7.8", 0, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer requireNoLeak(t)()
			got, err := Solve(t.Context(), c.text, SolveOptions{
				MaxWork:  c.most,
				Progress: func(uint64, uint64) { t.Fatal("it began to work") },
			})
			require.ErrorIs(t, err, c.want)
			require.Empty(t, got)
		})
	}
	t.Run("at the cap", func(t *testing.T) {
		c := issued(t, is, 64)
		kit.Must(Solve(t.Context(), c.Text, SolveOptions{MaxWork: 64}))(t)
	})
}

// spoilt changes the target of one puzzle: it has no answer any more, up to a
// chance of span/2^48.
func spoilt(t *testing.T, text string, puzzle int) string {
	raw := kit.Must(base64.RawURLEncoding.DecodeString(text))(t)
	raw[headerLen+targetLen*puzzle] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// unanswerable is a solver with puzzles that have no answer.
func unanswerable(puzzles int, span uint32) *solver {
	return &solver{
		targets: make([]byte, puzzles*targetLen),
		span:    span,
		numbers: make([]uint32, puzzles),
		pulse:   make(chan struct{}, 1),
	}
}

// TestSolveGivesUpTogether: one puzzle without an answer ends the work on the rest. The
// workers go one after the other here: how far another comes meanwhile is chance.
func TestSolveGivesUpTogether(t *testing.T) {
	s := unanswerable(16, 2*stretch)
	s.live.Store(2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.work(ctx, cancel)
	require.Equal(t, uint64(s.span), s.done.Load(), "it gives up with its first puzzle")
	require.Error(t, ctx.Err(), "and says so")
	s.work(ctx, cancel)
	require.Equal(t, uint64(s.span), s.done.Load(), "the other does nothing any more")
	require.Zero(t, s.found.Load())
	<-s.pulse
	_, open := <-s.pulse
	require.False(t, open, "the last one says that it was the last")
}

// impatient is a context that ends after it was looked at a number of times.
type impatient struct {
	context.Context
	looks int
}

func (c *impatient) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestSolveLooksAtItsContext: before each stretch, and at none after it has ended.
func TestSolveLooksAtItsContext(t *testing.T) {
	for looks := range 4 {
		s := unanswerable(1, 8*stretch)
		require.False(t, s.puzzle(&impatient{t.Context(), looks}, 0))
		require.Equal(t, uint64(looks*stretch), s.done.Load())
	}
}

// TestSolveTriesTheWholeRange: the last candidate is one of them, the next is not.
func TestSolveTriesTheWholeRange(t *testing.T) {
	var seed [32]byte
	m := newMessage(&seed, 0)
	sum := m.digest(5000)
	n, ok := m.search(sum[:targetLen], 0, 5001)
	require.True(t, ok)
	require.Equal(t, uint32(5000), n)
	_, ok = m.search(sum[:targetLen], 0, 5000)
	require.False(t, ok)
	for _, span := range []uint32{stretch - 1, stretch, stretch + 1, 2 * stretch} {
		last := m.digest(span - 1)
		s := solver{span: span, targets: last[:targetLen], numbers: make([]uint32, 1), pulse: make(chan struct{}, 1)}
		require.True(t, s.puzzle(t.Context(), 0))
		require.Equal(t, span-1, s.numbers[0])
		beyond := m.digest(span)
		s = solver{span: span, targets: beyond[:targetLen], numbers: make([]uint32, 1), pulse: make(chan struct{}, 1)}
		require.False(t, s.puzzle(t.Context(), 0))
	}
}

func TestSolveProgress(t *testing.T) {
	is := newIssuer(t, secretA)
	c := issued(t, is, 1<<17)
	for _, workers := range []int{1, 3} {
		var calls, last uint64 // unguarded: the race detector proves the promise
		kit.Must(Solve(t.Context(), c.Text, SolveOptions{Workers: workers, Progress: func(done, total uint64) {
			require.Equal(t, 2*c.Work, total)
			require.GreaterOrEqual(t, done, last)
			require.LessOrEqual(t, done, total)
			calls, last = calls+1, done
		}}))(t)
		require.NotZero(t, calls)
		require.Equal(t, 2*c.Work, last, "the last call says all")
	}
}

// TestSolveStops: cancelled at the first sign of life it must not go on to the
// end of its 64 million candidates. How far it is by then is left open: a busy machine
// may delay the caller that cancels. [TestSolveLooksAtItsContext] counts.
func TestSolveStops(t *testing.T) {
	raw := make([]byte, rawLen(16))
	h := header{k: 16, span: 1 << 22}
	h.append(raw[:0])
	text := base64.RawURLEncoding.EncodeToString(raw)
	for _, workers := range []int{1, 2, 9} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			defer requireNoLeak(t)()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := Solve(ctx, text, SolveOptions{MaxWork: MaxWork, Workers: workers, Progress: func(uint64, uint64) { cancel() }})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, ctx.Err(), context.Canceled, "it was at work")
		})
	}
	t.Run("ended before the workers", func(t *testing.T) {
		defer requireNoLeak(t)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := unanswerable(16, 1<<22)
		require.ErrorIs(t, s.run(ctx, SolveOptions{Workers: 9}), context.Canceled)
		require.Zero(t, s.done.Load(), "theirs is the caller's context")
	})
	t.Run("before it starts", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, text := range []string{text, issueWith(newIssuer(t, secretA), 0, alice, 0, nonce("cancelled")).Text} {
			_, err := Solve(ctx, text, SolveOptions{MaxWork: MaxWork, Progress: func(uint64, uint64) { t.Fatal("it began to work") }})
			require.ErrorIs(t, err, context.Canceled)
		}
	})
	t.Run("past deadline", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), epoch.AddDate(-50, 0, 0))
		defer cancel()
		_, err := Solve(ctx, text, SolveOptions{MaxWork: MaxWork})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("progress panics", func(t *testing.T) {
		defer requireNoLeak(t)()
		s := unanswerable(16, 1<<26) // at least half a minute of hashing, were it not stopped
		func() {
			defer func() {
				require.Zero(t, s.live.Load(), "workers alive")
				require.Equal(t, "stop", recover())
			}()
			_ = s.run(t.Context(), SolveOptions{Workers: 16, Progress: func(uint64, uint64) { panic("stop") }})
		}()
		require.Less(t, s.done.Load(), uint64(8<<26), "half of all was still hashed")
	})
}

// requireNoLeak counts goroutines now and in the function it returns. A worker
// that has said goodbye may still be on its way out, and a busy machine may leave it
// there for long.
func requireNoLeak(t *testing.T) func() {
	before := runtime.NumGoroutine()
	return func() {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); runtime.Gosched() {
			if runtime.NumGoroutine() <= before {
				return
			}
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines left behind")
	}
}

// tries is what a sequential search spends: n+1 hashes to arrive at n.
func tries(numbers []uint32) (sum uint64) {
	for _, n := range numbers {
		sum += uint64(n) + 1
	}
	return sum
}

// TestPriceOfHiddenNumbers: mean W, never above 2W. The nonces are fixed, so the
// sample is always the same one.
func TestPriceOfHiddenNumbers(t *testing.T) {
	kit.OnlyWhole(t, "takes many samples")
	const samples = 10_000
	is := newIssuer(t, secretA)
	for _, work := range []uint64{4096, DefaultWork, 3 << 20, MaxWork} {
		var sum, most uint64
		var p99 int
		for i := range samples {
			c := issueWith(is, 1_790_000_000, alice, work, nonce(fmt.Sprint("price", i)))
			n := tries(answersOf(t, is, c.Text))
			sum, most = sum+n, max(most, n)
			if float64(n) <= 1.47*float64(work) {
				p99++
			}
		}
		mean := float64(sum) / samples
		t.Logf("work %d: mean %.4f W, max %.3f W, %.2f %% within 1.47 W", work, mean/float64(work), float64(most)/float64(work), 100*float64(p99)/samples)
		require.InEpsilon(t, float64(work), mean, 0.01)
		require.LessOrEqual(t, most, 2*work)
		require.InDelta(t, 0.99, float64(p99)/samples, 0.005)
	}
}

// TestEachPuzzleIsUniform: no puzzle is easier than another, and zero is as
// likely as any number, so starting elsewhere gains nothing.
func TestEachPuzzleIsUniform(t *testing.T) {
	kit.OnlyWhole(t, "takes many samples")
	const samples, cells = 16_000, 16
	is := newIssuer(t, secretA)
	var seen [puzzles][cells]int
	for i := range samples {
		c := issueWith(is, 1_790_000_000, alice, cells*puzzles/2, nonce(fmt.Sprint("uniform", i)))
		for p, n := range answersOf(t, is, c.Text) {
			seen[p][n]++
		}
	}
	for p := range seen {
		chi := 0.0
		for _, n := range seen[p] {
			d := float64(n) - samples/cells
			chi += d * d / (samples / cells)
		}
		require.Less(t, chi, 45.0, "puzzle %d: chi square with 15 degrees", p) // p = 0.0001
	}
}
