// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/program"
)

func requireRedis(t *testing.T) {
	t.Helper()
	if _, err := program.FindRedis(); err != nil {
		kit.Unable(t, "%v", err)
	}
}

// A short soak: all that the long one has, each at least once. It hangs on counts alone, so a
// machine that is busy takes longer, and comes to the same.
//
// It is run once, with the race detector: that is what it is for.
func TestSoak(t *testing.T) {
	requireRedis(t)
	kit.OnlyWhole(t, "serves for some seconds, with the race detector")
	var stdout, stderr bytes.Buffer
	held, err := Run(t.Context(), "soak", []string{"-for", "5s"}, &stdout, &stderr, nil)
	t.Logf("%s%s", &stdout, &stderr)
	require.NoError(t, err)
	require.True(t, held)
	require.NotContains(t, stdout.String(), "FAILED")
}

// With one thing broken a soak says so, and says what.
func TestSoakFindsFaults(t *testing.T) {
	requireRedis(t)
	kit.OnlyWhole(t, "serves for some seconds; what judges has tests of its own, which are quick")
	release, before := make(chan struct{}), runtime.NumGoroutine()
	t.Cleanup(func() {
		close(release)
		require.LessOrEqual(t, left(before, patience), before, "the next test may count them")
	})
	t.Cleanup(func() { kept = nil })
	for i, c := range []struct {
		name   string
		breaks func(*settings)
		row    string
		why    string // where several things are in one row
	}{
		{"Redis forgets when it is killed", func(s *settings) { s.redis = []string{"--appendonly", "no"} }, "/paid: acknowledged, and not in Redis", ""},
		// By more than the quotas of two configurations differ: a busy machine may go from one to the
		// other so often meanwhile that no client comes near the higher one.
		{"bounds are lower", func(s *settings) { s.slack = quotaOf(windowed, 0) - quotaOf(windowed, 1) - 1 }, "admitted by an instance in a window, most: drops", ""},
		{"a goroutine is kept", func(s *settings) {
			var once atomic.Bool
			s.patience = 2 * time.Second
			s.wrap = func(_ *world, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if once.CompareAndSwap(false, true) {
						go func() { <-release }()
					}
					next.ServeHTTP(w, r)
				})
			}
		}, "goroutines before", ""},
		{"a map grows", func(s *settings) {
			var mu sync.Mutex
			s.wrap = func(_ *world, next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.Header.Get(house.ClientHeader), "steady") {
						mu.Lock()
						kept = append(kept, make([]byte, 128<<10))
						mu.Unlock()
					}
					next.ServeHTTP(rw, r)
				})
			}
		}, "live heap", ""},
		{"a client is refused that has room", func(s *settings) {
			s.wrap = refuseSome(func(w *world) bool { return true })
		}, "honest: refused with room", "steady"},
		{"a flood starves honest clients", func(s *settings) {
			s.cycles = 2
			s.wrap = refuseSome(func(w *world) bool { return w.flooding.Load() })
		}, "steady clients, quiet and flood", ""},
		{"an answer is cut", func(s *settings) {
			var n atomic.Int64
			s.wrap = func(_ *world, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.Header.Get(house.ClientHeader), "body") && n.Add(1) == 5 {
						r.Body = io.NopCloser(io.LimitReader(r.Body, 1000))
					}
					next.ServeHTTP(w, r)
				})
			}
		}, "a body or an answer that was cut", ""},
		{"a token is forged on its way", func(s *settings) {
			s.wrap = func(_ *world, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if token := r.Header.Get(middleware.TokenHeader); token != "" && strings.HasPrefix(r.Header.Get(house.ClientHeader), "full") {
						r.Header.Set(middleware.TokenHeader, token[:len(token)-4]+"AAAA")
					}
					next.ServeHTTP(w, r)
				})
			}
		}, "honest: a token not accepted", "full"},
		{"secrets are dropped at once", func(s *settings) {
			s.reconfigure, s.rotate = 100*time.Millisecond, 100*time.Millisecond
			s.hasty = true
		}, "honest: a token not accepted", ""},
		{"a handler panics", func(s *settings) {
			var once atomic.Bool
			s.wrap = func(_ *world, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if once.CompareAndSwap(false, true) {
						panic("a test")
					}
					next.ServeHTTP(w, r)
				})
			}
		}, "servers: lines logged", ""},
		{"nobody notices that it is busy", func(s *settings) {
			s.cycles, s.byLoad = 2, true
			s.configured = ofPolicy(busy, func(p object) { p["challenge"].(object)["busyPerSecond"] = 1_000_000 })
		}, "admitted by an instance in a window, most: all, without work", ""},
		{"a calm instance asks for work", func(s *settings) {
			s.byLoad = true
			s.configured = ofPolicy(busy, func(p object) {
				p["challenge"].(object)["mode"], p["challenge"].(object)["busyPerSecond"] = "newcomers", 0
			})
		}, "honest: refused with room", "asked for work though no other client has come"},
		{"work lets nobody in", func(s *settings) {
			s.cycles, s.byLoad = 2, true
			s.wrap = withoutProofs("newcomer")
		}, "honest: refused with room", "not let in with its work"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !kit.Long() && i > 0 {
				t.Skip("one is enough, where time is short: TestEveryCheckCanFail has a case for each row")
			}
			set := settingsFor(10 * time.Second)
			set.cycles = 1
			set.dir = t.TempDir()
			c.breaks(&set)
			f := kit.Must(live(t.Context(), set))(t)
			failed := ""
			for _, r := range f.rows() {
				if !r.OK {
					failed += "\n" + r.What
					if strings.HasPrefix(r.What, c.row) {
						require.Contains(t, r.Why, c.why)
					}
				}
			}
			require.Contains(t, failed, "\n"+c.row)
		})
	}
}

// ofPolicy changes the configuration of one policy.
func ofPolicy(policy string, change func(object)) func(string, object) {
	return func(of string, c object) {
		if of == policy {
			change(c)
		}
	}
}

// withoutProofs takes the proofs out of the requests of some clients, but not those with which they redeem.
func withoutProofs(kind string) func(*world, http.Handler) http.Handler {
	return func(_ *world, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get(house.ClientHeader), kind) && !strings.Contains(r.URL.Path, "/tally/") {
				r.Header.Del(middleware.ProofHeader)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// refuseSome refuses every twentieth request of the steady clients, while a world is so.
func refuseSome(while func(*world) bool) func(*world, http.Handler) http.Handler {
	var n atomic.Int64
	return func(w *world, next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get(house.ClientHeader), "steady") && while(w) && n.Add(1)%20 == 0 {
				http.Error(rw, "no", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(rw, r)
		})
	}
}

// An operator that ends it gets the table of what was seen, and nothing stays behind.
func TestSoakIsInterrupted(t *testing.T) {
	requireRedis(t)
	kit.OnlyWhole(t, "serves for some seconds, with the race detector")
	ctx, stop := context.WithCancel(t.Context())
	set := settingsFor(time.Hour)
	set.round, set.dir = 0, t.TempDir()
	set.wrap = func(w *world, next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.Kills.Load() > 0 { // Redis is away
				stop()
			}
			next.ServeHTTP(rw, r)
		})
	}
	f := kit.Must(live(ctx, set))(t)
	require.True(t, f.interrupted)
	rows := f.rows()
	require.True(t, Holds(rows), "%+v", rows)
	var text bytes.Buffer
	require.NoError(t, f.write(&text, rows))
	require.Contains(t, text.String(), ", interrupted")
}

// set makes the field be found so often.
func (f field) set(n int64) {
	switch x := f.value.(type) {
	case *Count:
		x.Store(n)
	case *int64:
		*x = n
	case *court.Complaints:
		for range n {
			x.Note("what it was")
		}
	}
}

// Happen has all happen that must, in tests of what judges.
func Happen(of any) {
	for f := range fields(of) {
		f.set(f.least)
	}
}

// Breakages are all ways in which one field can be wrong, for the same tests. Each returns the row that must say so.
func Breakages[T any](of *T) (all []func(*T) string) {
	for f := range fields(of) {
		all = append(all, func(of *T) string {
			for other := range fields(of) {
				if other.what == f.what {
					other.set(max(1, f.least) - min(1, f.least))
				}
			}
			return f.what
		})
	}
	return all
}

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(i int) float64
		want float64
	}{
		{"flat", func(int) float64 { return 7 }, 0},
		{"warms up, and is flat", func(i int) float64 { return float64(min(i, 30)) }, 0},
		{"grows by 2 each time", func(i int) float64 { return float64(2 * i) }, 98},
		{"shrinks", func(i int) float64 { return float64(-i) }, -49},
		{"grows at the end", func(i int) float64 { return float64(max(0, i-50)) }, 49},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Series
			for i := range 100 {
				s = append(s, c.at(i))
			}
			require.InDelta(t, c.want, s.Growth(), 1e-6)
		})
	}
	require.Zero(t, Series{1, 2, 3, 4}.Growth(), "too few to say")
	require.Zero(t, Series(nil).Quarter(0.5))
	require.InDelta(t, 2.5, Series{1, 1, 2, 3, 9, 9, 9, 9}.Quarter(0.25), 1e-6)
}
