// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// A database answers as a test says, and counts the calls.
type database struct {
	mu     sync.Mutex
	answer func(ctx context.Context, k string) (int, error)
	asked  map[string]int
	failed []error
}

func (d *database) table(entries int) *Table[string, int] {
	d.asked = map[string]int{}
	return &Table[string, int]{
		Ask: func(ctx context.Context, k string) (int, error) {
			d.mu.Lock()
			d.asked[k]++
			n, answer := d.asked[k], d.answer
			d.mu.Unlock()
			if answer == nil {
				return n, nil
			}
			return answer(ctx, k)
		},
		Failed: func(err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failed = append(d.failed, err)
		},
		Keep: strings.Clone, Life: time.Minute, Deadline: 100 * time.Millisecond, Entries: entries,
	}
}

func (d *database) failures() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.failed)
}

var noon = time.Unix(1_800_000_000, 0)

// An answer serves for a life; then no caller waits for the next; then one does.
func TestAnAnswerServes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		d.answer = func(context.Context, string) (int, error) {
			time.Sleep(time.Millisecond) // no answer comes before the request goes on
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.asked["a"], nil
		}
		table := d.table(8)
		for i, step := range []struct {
			after time.Duration // since noon
			want  int
			calls int
		}{
			{0, 1, 1},
			{time.Minute - 1, 1, 1},
			{time.Minute, 1, 2},                 // the old answer, while it is asked for anew
			{time.Minute, 2, 2},                 // which is there by now
			{3*time.Minute + time.Second, 3, 3}, // too old: waits
			{3 * time.Minute, 3, 3},             // read a moment before
			{time.Minute, 4, 4},                 // the clock has stepped back
		} {
			v, known := table.Get(t.Context(), noon.Add(step.after), "a")
			require.True(t, known)
			require.Equal(t, step.want, v, i)
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, step.calls, d.asked["a"], i)
		}
	})
}

// Callers that ask about the same key wait for the same call, and for no other.
func TestOneCallForAKey(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		d.answer = func(_ context.Context, k string) (int, error) {
			time.Sleep(50 * time.Millisecond)
			return len(k), nil
		}
		table := d.table(8)
		kit.Together(300, func(i int) {
			k := strings.Repeat("x", 1+i%3)
			v, known := table.Get(t.Context(), noon, k)
			require.True(t, known)
			require.Equal(t, len(k), v)
		})
		require.Equal(t, map[string]int{"x": 1, "xx": 1, "xxx": 1}, d.asked)
	})
}

// A function that is late makes no caller wait for longer than the deadline, and none twice, and is
// not called again while it is out; its answer serves when it comes.
func TestALateAnswer(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			var d database
			d.answer = func(ctx context.Context, _ string) (int, error) {
				if obeys {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				time.Sleep(time.Hour)
				return 7, nil
			}
			table := d.table(8)
			began := time.Now()
			for range 3 {
				_, known := table.Get(t.Context(), noon, "a")
				require.False(t, known)
				require.Equal(t, 100*time.Millisecond, time.Since(began), "the first waits")
			}
			if obeys {
				synctest.Wait()
				require.ErrorIs(t, d.failed[len(d.failed)-1], context.DeadlineExceeded)
				return
			}
			require.Equal(t, []error{ErrLate}, d.failed)
			_, known := table.Get(t.Context(), noon.Add(time.Minute), "a")
			require.False(t, known)
			require.Equal(t, 1, d.asked["a"])
			require.Equal(t, 1, d.failures(), "told once")
			time.Sleep(time.Hour)
			synctest.Wait()
			v, known := table.Get(t.Context(), noon.Add(time.Second), "a")
			require.True(t, known)
			require.Equal(t, 7, v)
			require.Equal(t, 1, d.asked["a"])
		})
	}
}

// A late call without a waiter is told of by the next caller.
func TestALateRefreshIsTold(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		table := d.table(8)
		_, _ = table.Get(t.Context(), noon, "a")
		hang := make(chan struct{})
		d.answer = func(context.Context, string) (int, error) { <-hang; return 9, nil }
		for _, want := range []int{0, 1, 1} {
			v, known := table.Get(t.Context(), noon.Add(time.Minute), "a")
			require.True(t, known)
			require.Equal(t, 1, v)
			require.Equal(t, want, d.failures())
			time.Sleep(time.Second)
		}
		close(hang)
		synctest.Wait()
	})
}

// What fails, in whatever way, leaves the last answer, makes no caller wait again, and is asked
// again after a tenth of a life.
func TestFailures(t *testing.T) {
	for name, fail := range map[string]func() (int, error){
		"an error":  func() (int, error) { return 0, errors.New("no database") },
		"a panic":   func() (int, error) { panic("no database") },
		"its death": func() (int, error) { runtime.Goexit(); return 0, nil },
	} {
		for _, known := range []bool{true, false} {
			kit.RunBubble(t, name, func(t *testing.T) {
				var d database
				table := d.table(8)
				if known {
					_, _ = table.Get(t.Context(), noon, "a")
				}
				before := d.asked["a"]
				d.answer = func(context.Context, string) (int, error) {
					time.Sleep(10 * time.Millisecond)
					return fail()
				}
				for i, step := range []struct {
					after time.Duration
					calls int
					waits time.Duration
				}{
					{5 * time.Minute, 1, 10 * time.Millisecond},
					{5*time.Minute + 5*time.Second, 1, 0},
					{5*time.Minute + 6*time.Second, 2, 0},
					{5*time.Minute + 11*time.Second, 2, 0},
					{time.Hour, 3, 0},
				} {
					began := time.Now()
					v, ok := table.Get(t.Context(), noon.Add(step.after), "a")
					require.Equal(t, step.waits, time.Since(began), i)
					require.Equal(t, known, ok)
					require.Equal(t, before, v)
					time.Sleep(time.Second)
					synctest.Wait()
					require.Equal(t, before+step.calls, d.asked["a"], i)
					require.Equal(t, step.calls, d.failures())
				}
				d.answer = nil
				_, _ = table.Get(t.Context(), noon.Add(2*time.Hour), "a")
				synctest.Wait()
				v, ok := table.Get(t.Context(), noon.Add(2*time.Hour), "a")
				require.True(t, ok)
				require.Equal(t, before+4, v)
				if p := new(Panic); errors.As(d.failed[0], &p) {
					require.Contains(t, string(p.Stack), "TestFailures")
					require.Equal(t, "panic: no database", p.Error())
				} else {
					require.NotEqual(t, "a panic", name)
				}
			})
		}
	}
}

// A caller that hangs up goes at once, and ends nothing that others wait for.
func TestHangingUpEndsNoCall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		type value struct{}
		d.answer = func(ctx context.Context, _ string) (int, error) {
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, ctx.Err())
			require.Equal(t, "trace", ctx.Value(value{}))
			return 3, nil
		}
		table := d.table(8)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), value{}, "trace"), time.Millisecond)
		defer cancel()
		began := time.Now()
		_, known := table.Get(ctx, noon, "a")
		require.False(t, known)
		require.Equal(t, time.Millisecond, time.Since(began))
		v, known := table.Get(t.Context(), noon, "a")
		require.True(t, known)
		require.Equal(t, 3, v)
		require.Zero(t, d.failures())
	})
}

// No more calls run at once than there are places, and the others wait for theirs no longer than for an answer.
func TestCallsAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		var out, most atomic.Int64
		hang := make(chan struct{})
		d.answer = func(context.Context, string) (int, error) {
			most.Store(max(most.Load(), out.Add(1)))
			<-hang
			out.Add(-1)
			return 1, nil
		}
		table := d.table(100)
		kit.Together(50, func(i int) {
			_, known := table.Get(t.Context(), noon, strconv.Itoa(i))
			require.False(t, known)
		})
		require.EqualValues(t, callsAtOnce, most.Load())
		synctest.Wait()
		busy := 0
		for _, err := range d.failed {
			if errors.Is(err, ErrBusy) {
				busy++
			}
		}
		require.Equal(t, 50-callsAtOnce, busy)
		close(hang)
		synctest.Wait()
		require.Zero(t, out.Load())
	})
}

// However many keys there are, no more are kept than the table has entries, and those that
// are in use stay.
func TestEntriesAreBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		table := d.table(100)
		for i := range 20_000 {
			at := noon.Add(time.Duration(i) * time.Microsecond)
			_, known := table.Get(t.Context(), at, "flood "+strconv.Itoa(i))
			require.True(t, known)
			if i%10 == 0 {
				_, known = table.Get(t.Context(), at, "customer")
				require.True(t, known)
			}
			require.LessOrEqual(t, len(table.entries), 100)
		}
		require.LessOrEqual(t, d.asked["customer"], 20, "of 2000 times")
		require.Zero(t, d.failures())
	})
}

// What is being asked about keeps its place.
func TestNobodyTakesThePlaceOfACall(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var d database
		hang := make(chan struct{})
		d.answer = func(context.Context, string) (int, error) { <-hang; return 1, nil }
		table := d.table(2)
		for _, k := range []string{"a", "b", "c", "a"} {
			_, known := table.Get(t.Context(), noon, k)
			require.False(t, known)
		}
		require.Equal(t, map[string]int{"a": 1, "b": 1}, d.asked)
		require.Equal(t, []error{ErrLate, ErrLate, ErrFull}, d.failed)
		close(hang)
		synctest.Wait()
		_, known := table.Get(t.Context(), noon, "c")
		require.True(t, known)
	})
}

// What another table knew is asked for anew, and serves if there is no answer.
func TestAdopt(t *testing.T) {
	for _, works := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			var old, d database
			before := old.table(8)
			for _, k := range []string{"a", "b", "c"} {
				_, _ = before.Get(t.Context(), noon, k)
			}
			old.answer = func(context.Context, string) (int, error) { return 0, errors.New("no") }
			_, _ = before.Get(t.Context(), noon, "unknown")
			table := d.table(2)
			table.Adopt(before, func(n int) int { return 100 * n })
			require.Len(t, table.entries, 2)
			d.answer = func(context.Context, string) (int, error) {
				if works {
					return 7, nil
				}
				return 0, errors.New("no")
			}
			table.mu.Lock()
			var k string
			for k = range table.entries {
			}
			table.mu.Unlock()
			v, known := table.Get(t.Context(), noon, k)
			require.True(t, known)
			require.Equal(t, map[bool]int{true: 7, false: 100}[works], v)
			require.Equal(t, 1, d.asked[k])
		})
	}
}

func TestInParallel(t *testing.T) {
	var d database
	d.answer = func(_ context.Context, k string) (int, error) {
		if len(k)%5 == 0 {
			return 0, errors.New("no")
		}
		return len(k), nil
	}
	table := d.table(20)
	kit.Together(8, func(worker int) {
		for i := range 500 {
			k := strings.Repeat("x", 1+(i*worker)%40)
			v, known := table.Get(t.Context(), noon.Add(time.Duration(i)*time.Second), k)
			if known {
				require.Equal(t, len(k), v)
			}
		}
	})
}
