// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/mutants"
)

func requireHouse(t *testing.T) {
	t.Helper()
	if err := house.Stands(); err != nil {
		kit.Unable(t, "%v", err)
	}
}

// With one thing broken a soak says so, and says what.
func TestSoakFindsFaults(t *testing.T) {
	requireHouse(t)
	kit.OnlyWhole(t, "builds a server for the race detector, and has it serve; what judges has tests of its own, which are quick")
	for i, c := range []struct {
		name   string
		breaks func(*settings)
		row    string
		why    string // where several things are in one row
		server string // what each plain handler of a server does too, where it is the server that is broken
	}{
		// By more than the quotas of two configurations differ: a busy machine may go from one to the
		// other so often meanwhile that no client comes near the higher one.
		{"bounds are lower", func(s *settings) { s.slack = quotaOf(windowed, 0) - quotaOf(windowed, 1) - 1 }, "admitted by an instance in a window, most: drops", "", ""},
		{"a goroutine is kept", nil, "instances that died, or that left goroutines", "goroutines are left", `go func() { select {} }()`},
		{"a map grows", nil, "live heap", "", `if strings.HasPrefix(r.Header.Get(ClientHeader), Measured) { s.count(r, strings.Repeat(time.Now().String(), 4000)) }`},
		{"a handler panics", nil, "servers: lines logged", "", `if r.Header.Get(ClientHeader) == "guesses 0" { panic("a test") }`},
		{"a client is refused that has room", func(s *settings) {
			s.tamper = refuseSome(func(*world) bool { return true })
		}, "honest: refused with room", "steady", ""},
		{"a flood starves honest clients", func(s *settings) {
			s.cycles = 2
			s.tamper = refuseSome(func(w *world) bool { return w.flooding.Load() })
		}, "steady clients, quiet and flood", "", ""},
		{"an answer is cut", func(s *settings) {
			var n atomic.Int64
			s.tamper = of("body", func(r *http.Request) {
				if n.Add(1) == 5 {
					r.Body, r.ContentLength = io.NopCloser(io.LimitReader(r.Body, 1000)), 1000
				}
			})
		}, "a body or an answer that was cut", "", ""},
		{"a token is forged on its way", func(s *settings) {
			s.tamper = of("full", func(r *http.Request) {
				if token := r.Header.Get(middleware.TokenHeader); token != "" {
					r.Header.Set(middleware.TokenHeader, token[:len(token)-4]+"AAAA")
				}
			})
		}, "honest: a token not accepted", "full", ""},
		{"secrets are dropped at once", func(s *settings) {
			s.reconfigure, s.rotate = 100*time.Millisecond, 100*time.Millisecond
			s.hasty = true
		}, "honest: a token not accepted", "", ""},
		{"work lets no client in", func(s *settings) {
			s.tamper = of("buys", func(r *http.Request) { r.Header.Del(middleware.ProofHeader) })
		}, "honest: refused with room", "the office", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !kit.Long() && i > 0 {
				t.Skip("one is enough, where time is short: TestEveryCheckCanFail has a case for each row")
			}
			set := settingsFor(10 * time.Second)
			set.cycles = 1
			if c.breaks != nil {
				c.breaks(&set)
			}
			var broken *house.Breakage
			if c.server != "" {
				const place = "s.count(r, Admitted)"
				broken = &house.Breakage{Mutant: mutants.Mutant{Name: c.name, In: "proof/lab/house/Site.handler", Old: place, New: place + "\n" + c.server}}
			}
			f := kit.Must(live(t.Context(), set, broken))(t)
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

// of changes the requests of one kind of clients.
func of(kind string, change func(*http.Request)) func(*world, *http.Request) *http.Response {
	return func(_ *world, r *http.Request) *http.Response {
		if strings.HasPrefix(r.Header.Get(house.ClientHeader), kind) {
			change(r)
		}
		return nil
	}
}

// refuseSome refuses every twentieth request of the steady clients, while a world is so.
func refuseSome(while func(*world) bool) func(*world, *http.Request) *http.Response {
	var n atomic.Int64
	return func(w *world, r *http.Request) *http.Response {
		if strings.HasPrefix(r.Header.Get(house.ClientHeader), "steady") && while(w) && n.Add(1)%20 == 0 {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: http.NoBody, Request: r}
		}
		return nil
	}
}

// An operator that ends it gets the table of what was seen, and nothing stays behind.
func TestSoakIsInterrupted(t *testing.T) {
	requireHouse(t)
	kit.OnlyWhole(t, "builds a server for the race detector, and has it serve")
	ctx, stop := context.WithCancel(t.Context())
	set := settingsFor(time.Hour)
	set.round = 0
	set.tamper = func(w *world, _ *http.Request) *http.Response {
		if w.restarting.Load() {
			stop()
		}
		return nil
	}
	f := kit.Must(live(ctx, set, nil))(t)
	require.True(t, f.interrupted)
	rows := f.rows()
	require.True(t, Holds(rows), "%+v", rows)
	var text bytes.Buffer
	require.NoError(t, f.write(&text, rows))
	require.Contains(t, text.String(), ", interrupted")
}

// set makes the field be found so often.
func (f field) set(n int64) {
	*f.Count = court.Count{}
	for range n {
		f.Note("what it was")
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

func TestQuarters(t *testing.T) {
	require.Zero(t, Series(nil).Quarter(0.5))
	require.InDelta(t, 2.5, Series{1, 1, 2, 3, 9, 9, 9, 9}.Quarter(0.25), 1e-6)
	require.False(t, Series{1, 1, 2, 3, 9, 9, 9, 9}.Flat("", "", 1, 7.9).OK)
	require.True(t, Series{1, 1, 2, 3, 9, 9, 9, 9}.Flat("", "", 1, 8).OK)
}
