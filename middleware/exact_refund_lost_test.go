// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
)

// losing loses the answers to refunds, in the order of lose: after they were made.
type losing struct {
	exact.Counter
	lose  []fate
	asked int
}

// A fate is what becomes of a refund's answer.
type fate int

const (
	arrives fate = iota
	lostAtOnce
	lostInTime // until the deadline nobody says anything
	notCounted
	otherError
)

func (l *losing) Refund(ctx context.Context, r exact.Receipt) error {
	becomes := arrives
	if l.asked < len(l.lose) {
		becomes = l.lose[l.asked]
	}
	l.asked++
	if becomes == notCounted {
		return exact.ErrNotCounted
	}
	err := l.Counter.Refund(ctx, r)
	switch becomes {
	case lostAtOnce:
		return exact.ErrMaybeCounted
	case lostInTime:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", exact.ErrMaybeCounted, ctx.Err())
	case otherError:
		return errEngine
	}
	return err
}

// A refund whose answer is lost is asked for again, by us and by the caller, and given
// once.
func TestRefundWhoseAnswerIsLost(t *testing.T) {
	for name, tt := range map[string]struct {
		lose  []fate
		errs  []error // of Refund, call by call; nil: it is done
		asked int
	}{
		"never":                     {nil, []error{nil, exact.ErrNoRefund}, 1},
		"once":                      {[]fate{lostAtOnce}, []error{nil, exact.ErrNoRefund}, 2},
		"of any other error":        {[]fate{otherError}, []error{nil, exact.ErrNoRefund}, 2},
		"twice":                     {[]fate{lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 3},
		"three times":               {[]fate{lostAtOnce, lostAtOnce, lostAtOnce}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 4},
		"for the deadline":          {[]fate{lostInTime}, []error{exact.ErrMaybeCounted, nil, exact.ErrNoRefund}, 2},
		"once, then not asked":      {[]fate{lostAtOnce, notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3},
		"not asked, then lost":      {[]fate{notCounted, lostAtOnce}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 3},
		"not asked is not repeated": {[]fate{notCounted}, []error{exact.ErrNotCounted, nil, exact.ErrNoRefund}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				counter := &losing{Counter: exact.NewMemory(0, nil), lose: tt.lose}
				cfg := hasty(new(clock), counter)
				cfg.Now = nil
				fails := true
				h := newLimiter(t, cfg).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !fails {
						return
					}
					fails = false
					for i, want := range tt.errs {
						require.ErrorIs(t, middleware.Refund(w, r), want, "call %d", i)
					}
				}))
				require.Equal(t, http.StatusOK, send(h).StatusCode)
				require.Equal(t, tt.asked, counter.asked)
				require.Equal(t, 5, admitted(h, 10), "all of the quota is there, and no more")
				synctest.Wait()
			})
		})
	}
}

// A charge that the counter does not have is no lost answer.
func TestRefundOfNothingIsNotDone(t *testing.T) {
	c := new(clock)
	counter := &losing{Counter: forgetful{exact.NewMemory(0, c.Now)}}
	h := newLimiter(t, paid(c, counter)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
		require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
	}))
	send(h)
	require.Equal(t, 1, counter.asked)
}

// What comes back too late is an error, is not asked for again, and is counted.
func TestLateRefundsAreCounted(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) { // the deadline passes
		c := new(clock)
		counter := &losing{Counter: late{exact.NewMemory(0, c.Now)}, lose: []fate{lostInTime}}
		m := newLimiter(t, paid(c, counter))
		h := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrMaybeCounted)
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrLateRefund)
			require.ErrorIs(t, middleware.Refund(w, r), exact.ErrNoRefund)
		}))
		send(h)
		require.EqualValues(t, 1, m.Stats().Counter.LateRefunds)
	})
}

// late has nothing to give back any more.
type late struct{ exact.Counter }

func (late) Refund(context.Context, exact.Receipt) error { return exact.ErrLateRefund }

// forgetful has nothing to give back.
type forgetful struct{ exact.Counter }

func (forgetful) Refund(context.Context, exact.Receipt) error { return exact.ErrNoRefund }
