// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// A mistake in a slice ends the measurement, and so does its context.
func TestWhatIsWrongEndsIt(t *testing.T) {
	wrong, s := errors.New("wrong"), &settings{groups: 1, part: 1, progress: io.Discard}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	play := func(ctx context.Context, slice func(func(string, float64))) error {
		good := row{"good", func(func(string, float64)) {}}
		return failing(func() { s.play(ctx, "x", samples{}, []row{good, {"bad", slice}}, 0) })
	}
	require.NoError(t, play(t.Context(), func(func(string, float64)) {}))
	require.ErrorIs(t, play(over, func(func(string, float64)) {}), context.Canceled)
	err := play(t.Context(), func(func(string, float64)) { check(wrong) })
	require.ErrorIs(t, err, wrong)
	require.ErrorContains(t, err, "x: bad: ")

	for _, from := range []int64{1, 5, 20, 30} {
		for _, callers := range []int{1, 16} {
			for _, every := range []time.Duration{0, 50 * time.Microsecond} {
				calls := new(atomic.Int64)
				ask := func(int, int) error { return []error{nil, wrong}[min(calls.Add(1)/from, 1)] }
				l := load{callers: callers, every: every, long: 10 * time.Millisecond, ask: ask, used: func() map[string]float64 { return map[string]float64{} }}
				require.ErrorIs(t, play(t.Context(), l.slice), wrong)
			}
		}
	}
	require.NoError(t, passed(true, nil))
	require.ErrorIs(t, passed(false, wrong), wrong)
	require.ErrorContains(t, passed(false, nil), "must pass")
}

// A load makes as many calls as its pace permits.
func TestLoadsKeepTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		ask := func(int, int) error { calls.Add(1); return nil }
		l := load{callers: 16, every: 8 * time.Millisecond, long: 600 * time.Millisecond, ask: ask, used: func() map[string]float64 { return map[string]float64{} }}
		figures := map[string]float64{}
		l.slice(func(unit string, figure float64) { figures[unit] = figure })
		require.InDelta(t, 700./8*16, calls.Load(), 20)
		require.InDelta(t, 2000, figures["rate"], 50)
	})
}

// New clients ask an instance that has not met them.
func TestNewClientsAreNew(t *testing.T) {
	for _, q := range requests {
		if q.beside != asFirst {
			continue
		}
		a := q.open(new(opening))
		a.clients, a.turn = population(10), 10
		made, renew := 0, a.renew
		a.renew = func() http.Handler { made++; return renew() }
		slice := a.slice(4)
		for i, want := range []int{1, 1, 2, 2, 3} { // after two turns two clients are left
			require.NoError(t, failing(func() { slice(func(string, float64) {}) }))
			require.Equal(t, want, made, "%s, turn %d", q.name, i)
		}
	}
}

// The memory knows more than the low forgery claims, and less than the high one.
func TestForgeriesClaimLittleAndMuch(t *testing.T) {
	var last middleware.Decision
	o := new(opening)
	o.tell = func(_ context.Context, d middleware.Decision) { last = d }
	h := ours()(o, plenty(1))
	used := func(shown ...string) int64 {
		a := newAsker(http.MethodPost, h)
		a.request.Header[byHeader] = shown
		a.run(1)
		return last.Limits()[0].Quota - last.Limits()[0].Remaining
	}
	for range 100 {
		used()
	}
	low, high := issued(policy, 1, strings.Clone)(o), issued(policy, 500_000_000, strings.Clone)(o)
	require.EqualValues(t, 101, used(forgedLow(o)))
	require.EqualValues(t, 102, used(forgedHigh(o)), "a forged token says nothing")
	require.EqualValues(t, 103, used(low), "nor does one that says less than is known")
	require.EqualValues(t, 500_000_001, used(high), "a good one that says more counts")
	require.Len(t, forgedLow(o), len(low))
	require.Len(t, forgedHigh(o), len(high))
	require.Len(t, forgedLong(o), token.MaxLen)
}

// Clients that show the tokens of others are not measured.
func TestPopulationsNoticeWhatIsNotAsMeant(t *testing.T) {
	for _, b := range []builder{ours(), newFloor} {
		a := request{beside: asMany, builders: []builder{b}, method: http.MethodPost, field: byHeader}.open(new(opening))
		require.NoError(t, failing(func() { a.slice(100)(func(string, float64) {}) }))
		first := a.clients[0].lines
		for i, next := range a.clients[1:] {
			a.clients[i].lines = next.lines // each client shows the next one's token
		}
		a.clients[len(a.clients)-1].lines = first
		require.ErrorContains(t, failing(func() { a.slice(100)(func(string, float64) {}) }), "an answer is not as meant")
	}
}

// A budget is kept below its figure and not above it. The table leaves out budgets that were not measured.
func TestBudgets(t *testing.T) {
	for _, b := range budgets {
		unit, _, _ := strings.Cut(b.unit, "/")
		for verdict, factor := range map[string]float64{"kept": 0.99, "**not kept**": 1.01} {
			s := make(samples)
			for _, rows := range rowsOf() {
				for _, row := range rows {
					row = strings.Trim(row, "`")
					delete(s, row)
					s.add(row, unit, 1)
				}
			}
			delete(s, b.row)
			measured := map[string]samples{b.part: s}
			none := verdicts(measured)
			require.NotContains(t, none.Text(), "| "+b.what+" |")
			s.add(b.row, unit, factor*b.most)
			all := verdicts(measured)
			require.Regexp(t, `\| `+strings.NewReplacer("`", ".", "(", ".", ")", ".").Replace(b.what)+` \|[^\n]*\| `+strings.ReplaceAll(verdict, "*", `\*`)+` \|`,
				all.Text())
		}
	}
}
