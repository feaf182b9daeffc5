// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// Load that does not end is told of once a minute, with its cause, and in the Stats; and no
// longer when it has ended. It is no outage.
func TestLoadThatDoesNotEndIsTold(t *testing.T) {
	for because, err := range map[string]error{
		"contended": exact.ErrContended,
		"busy":      exact.ErrBusy,
	} {
		for name, leased := range map[string]bool{"a call": false, "a lease": true} {
			t.Run(because+", "+name, func(t *testing.T) {
				c, l, cfg := paidRoute()
				cfg.Limits[0].Quota = 1 << 20
				if leased {
					cfg.Concurrency = &middleware.Concurrency{Max: 5}
				}
				h := newSite(t, cfg)
				asks := func(status, seconds int) {
					refused := 0
					for range 4 * seconds {
						if send(h).StatusCode == http.StatusServiceUnavailable {
							refused++
						}
						c.Advance(250 * time.Millisecond)
					}
					if status == http.StatusOK {
						require.Zero(t, refused)
					} else {
						require.GreaterOrEqual(t, refused, 3*seconds)
					}
				}
				asks(http.StatusOK, 10)
				l.Fault = func(_ context.Context, call int) error {
					if call%4 == 0 && because == "busy" { // answered at no time it would be an outage
						return nil
					}
					return fmt.Errorf("%w: the table is throttled", err)
				}
				asks(http.StatusServiceUnavailable, 5)
				require.Empty(t, h.Log.Lines(), "it may be a rush")
				require.False(t, h.M.Stats().Counter.Refusing)
				asks(http.StatusServiceUnavailable, 10)
				require.True(t, h.M.Stats().Counter.Refusing)
				require.False(t, h.M.Stats().Counter.Down)
				require.Equal(t, 1, len(h.Log.Lines()))
				require.Contains(t, h.Log.String(), "code=counter-refuses because="+because+" error=")
				require.Contains(t, h.Log.String(), "the table is throttled")
				asks(http.StatusServiceUnavailable, 120)
				require.Equal(t, 3, h.Log.Count("code=counter-refuses"), "one a minute")
				require.Equal(t, 3, len(h.Log.Lines()))
				l.Fault = nil
				asks(http.StatusOK, 7)
				require.False(t, h.M.Stats().Counter.Refusing)
				require.Equal(t, 3, len(h.Log.Lines()))
			})
		}
	}
}

// A counter that has no room is told of at the first customer whom it refuses, and once a minute, with
// what it says: others pass, so that it need never be most of them. It is no outage.
func TestAFullCounterIsTold(t *testing.T) {
	for name, leased := range map[string]bool{"a call": false, "a lease": true} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			if leased {
				cfg.Concurrency = &middleware.Concurrency{Max: 5}
			}
			h := newSite(t, cfg)
			for second := range 130 {
				for n := range 10 {
					l.Fault = nil
					if n == 9 && second > 5 {
						l.Fault = func(context.Context, int) error { return fmt.Errorf("%w: no room on the disk", exact.ErrFull) }
					}
					resp := send(h)
					require.Equal(t, l.Fault != nil, resp.StatusCode == http.StatusServiceUnavailable)
				}
				require.Equal(t, (second+54)/60, len(h.Log.Lines()), second)
				c.Advance(time.Second)
			}
			for _, line := range h.Log.Lines() {
				require.Contains(t, line, "code=counter-full")
				require.Contains(t, line, "no room on the disk")
			}
			require.False(t, h.M.Stats().Counter.Refusing)
			require.False(t, h.M.Stats().Counter.Down)
		})
	}
}

// Where little is asked it takes longer, and is told all the same.
func TestLoadThatMeetsFewRequestsIsTold(t *testing.T) {
	c, l, h := paidSite(t)
	l.Fault = func(context.Context, int) error { return exact.ErrContended }
	for range 30 {
		require.Equal(t, http.StatusServiceUnavailable, send(h).StatusCode)
		c.Advance(50 * time.Second)
	}
	require.NotEmpty(t, h.Log.Lines())
	require.True(t, h.M.Stats().Counter.Refusing)
	c.Advance(time.Minute)
	require.False(t, h.M.Stats().Counter.Refusing, "of a counter that nobody asks nothing is known")
}

// A rush for five seconds, however large, a third of calls that meet load all the time, and
// an outage are not told of.
func TestLoadThatIsNotTold(t *testing.T) {
	for name, fails := range map[string]func(second, n int) error{
		"a rush": func(second, n int) error {
			if second%20 >= 5 || n == 0 {
				return nil
			}
			return exact.ErrBusy
		},
		"every third": func(_, n int) error {
			if n%3 == 0 {
				return exact.ErrBusy
			}
			return nil
		},
		"half": func(_, n int) error {
			if n%2 == 0 {
				return exact.ErrContended
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			h := newSite(t, cfg)
			for second := range 60 {
				requests := 6
				if fails(second, 1) != nil {
					requests = 60
				}
				for n := range requests {
					l.Fault = func(context.Context, int) error { return fails(second, n) }
					send(h)
				}
				c.Advance(time.Second)
				require.False(t, h.M.Stats().Counter.Refusing)
			}
			require.Empty(t, h.Log.Lines())
		})
	}
	t.Run("an outage", func(t *testing.T) {
		c, l, h := paidSite(t)
		l.Fault = onFire
		for range 100 {
			send(h)
			c.Advance(250 * time.Millisecond)
		}
		require.Contains(t, h.Log.String(), "code=counter-down")
		require.NotContains(t, h.Log.String(), "counter-refuses")
	})
}

// A client that hammers its own key, so that its calls lose every race for it, has neither the fallback nor an alarm
// of an outage, however long it goes on: unless the program has chosen to be open by name. Then it has the fallback's
// quota, and no such alarm either. Where nobody else asks, it is told of as load that does not end.
func TestAHammeredKeyIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		outage, contended middleware.Outage
		admitted, refused int // of 40
		status            int // of who is refused
	}{
		{middleware.FailOpen, 0, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailClosed, 0, 40, http.StatusServiceUnavailable},
		{middleware.FailOpen, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, middleware.FailOpen, 2, 38, http.StatusTooManyRequests},
		{middleware.FailClosed, 0, 0, 40, http.StatusServiceUnavailable},
	} {
		t.Run(fmt.Sprintf("outage %d, contended %d", tc.outage, tc.contended), func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
			cfg.Exact.Outage, cfg.Exact.Contended, cfg.Instances = tc.outage, tc.contended, 2
			h := newSite(t, cfg)
			l.Fault = func(context.Context, int) error { return fmt.Errorf("%w: a race", exact.ErrContended) }
			admitted, refused := 0, 0
			for range 40 { // for ten seconds: longer than any silence that is an outage
				resp := send(h)
				open := tc.contended == middleware.FailOpen
				require.Equal(t, open, resp.Header.Get("Tallystick-Degraded") != "")
				switch resp.StatusCode {
				case http.StatusOK:
					admitted++
				case tc.status:
					refused++
				}
				c.Advance(250 * time.Millisecond)
			}
			require.Equal(t, tc.admitted, admitted, "the fallback's quota, where it is open by name")
			require.Equal(t, tc.refused, refused)
			require.Equal(t, 40, l.Count(), "no breaker opens")
			require.Equal(t, []string{"counter-refuses"}, codesIn(h.Log.Lines()), "no alarm of an outage")
			l.Fault = nil
			require.Equal(t, http.StatusOK, send(h).StatusCode, "the counter decides, and has charged nothing")
		})
	}
}

// Whoever reconfigures in an outage still hears that it is over, and hears nothing twice.
func TestAnOutageOutlivesAConfiguration(t *testing.T) {
	c, l, cfg := paidRoute()
	log := logTo(&cfg)
	h := newSite(t, cfg)
	l.Fault = onFire
	for range 5 {
		breaks(h, c)
		require.NoError(t, h.M.Reconfigure(cfg))
	}
	require.Equal(t, 1, log.Count("does not answer"))
	l.Fault = nil
	send(h)
	require.NoError(t, h.M.Reconfigure(cfg))
	c.Advance(10 * time.Second)
	send(h)
	require.Equal(t, 1, log.Count("answers again"))
}

// An outage of two seconds must not send a polite client away for a day.
func TestOutageSendsNobodyAwayForLong(t *testing.T) {
	c := new(clock)
	l := newLedger(c)
	l.Fault = onFire
	cfg := paid(c, l)
	cfg.Limits = []middleware.Limit{{Name: "day", Quota: 4, Window: 24 * time.Hour}}
	cfg.Exact.Outage, cfg.Instances = middleware.FailOpen, 2
	h, _ := limited(t, cfg)
	require.Equal(t, 2, admitted(h, 2))
	resp := requireStatus(t, http.StatusTooManyRequests, send(h))
	require.LessOrEqual(t, retryAfter(t, resp), 66*time.Second)
	require.Equal(t, `"day";r=0;t=60`, resp.Header.Get("RateLimit"))
	l.Fault = nil
	c.Advance(time.Minute)
	require.Equal(t, http.StatusOK, send(h, showing(tokenIn(resp))).StatusCode)
}

// A counter that comes and goes: the log says that it is well after ten quiet seconds alone, and tells of each outage
// that comes after it has said so.
func TestACounterThatComesAndGoes(t *testing.T) {
	const down, back = "counter-down", "counter-back"
	for _, tc := range []struct {
		name   string
		phases []int // seconds: down, up, down, ...
		told   []string
		again  int // of the alarms
	}{
		{"back for a moment", []int{2, 3, 60}, []string{down}, 0},
		{"six times", []int{2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 20}, []string{down, back}, 0},
		{"back for longer", []int{2, 12, 120}, []string{down, back, down}, 1},
		{"and again, within the minute", []int{2, 12, 2, 12, 2, 12, 60}, []string{down, back, down, back, down, back, down}, 3},
		{"an hour later", []int{2, 3600, 2, 20}, []string{down, back, down, back}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, l, cfg := paidRoute()
			cfg.Limits[0].Quota = 1 << 20
			h := newSite(t, cfg)
			for i, seconds := range tc.phases {
				l.Fault = nil
				if i%2 == 0 {
					l.Fault = onFire
				}
				for range 20 * seconds {
					send(h)
					c.Advance(50 * time.Millisecond)
				}
			}
			told := slices.DeleteFunc(codesIn(h.Log.Lines()), func(code string) bool { return code == "counter-failed" })
			require.Equal(t, tc.told, told)
			require.Equal(t, tc.again, h.Log.Count("again=true"))
			require.LessOrEqual(t, h.Log.Count(down), 6)
		})
	}
}

// Few requests are enough for an all-clear: the first answer begins the ten seconds.
func TestTheAllClearOfAQuietSite(t *testing.T) {
	c, l, h := paidSite(t)
	l.Fault = onFire
	breaks(h, c)
	require.Equal(t, 1, h.Log.Count("code=counter-down"))
	l.Fault = nil
	c.Advance(2 * time.Minute)
	send(h)
	require.Zero(t, h.Log.Count("code=counter-back"), "one answer is none")
	c.Advance(-time.Hour) // the clock was wrong
	send(h)
	c.Advance(9 * time.Second)
	send(h)
	require.Zero(t, h.Log.Count("code=counter-back"))
	c.Advance(time.Second)
	send(h)
	require.Equal(t, 1, h.Log.Count("code=counter-back"))
}

// A counter that is full of live keys sends a newcomer away for as long as it says, an hour at most, and for a moment
// where it does not say. Over HTTP it says the same.
func TestAFullCounterSaysWhenToComeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		wait     time.Duration
		from, to int
	}{
		"it does not say": {0, 1, 1},
		"some minutes":    {599 * time.Second, 599, 599 + 30},
		"a day":           {24 * time.Hour, 3600, 3630},
	} {
		for way, leased := range map[string]bool{"a call": false, "a lease": true} {
			t.Run(name+", "+way, func(t *testing.T) {
				_, l, cfg := paidRoute()
				cfg.Exact.Counter = &altered{Counter: l, OnTake: func(context.Context, exact.Call) (v exact.Verdict, err error) {
					v.Wait = tc.wait
					return v, exact.ErrFull
				}}
				if leased {
					cfg.Concurrency = &middleware.Concurrency{Max: 5}
				}
				resp := requireStatus(t, http.StatusServiceUnavailable, send(newSite(t, cfg)))
				seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				require.NoError(t, err)
				require.GreaterOrEqual(t, seconds, tc.from)
				require.LessOrEqual(t, seconds, tc.to)
			})
		}
	}
}
