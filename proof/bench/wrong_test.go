// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/token"
	"github.com/tallystick/tallystick/middleware"
)

// failing returns what ends a measurement.
func failing(measure func()) (err error) {
	defer caught(&err)
	measure()
	return nil
}

// What is wrong before a slice, in it, or after it ends the measurement, and so does its context.
func TestWhatIsWrongEndsIt(t *testing.T) {
	wrong, s := errors.New("wrong"), &settings{groups: 1, part: 1}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	play := func(ctx context.Context, p player) error {
		kind := turns{name: "x", slice: 1, open: func(*settings, *opening) []player { return []player{{name: "good", run: func(int) {}}, p} }}
		return failing(func() { kind.measure(ctx, s, new(opening), 0, io.Discard) })
	}
	nothing, fails := func(int) {}, func(int) error { return wrong }
	require.NoError(t, play(t.Context(), player{name: "bad", run: nothing}))
	require.ErrorIs(t, play(over, player{name: "bad", run: nothing}), context.Canceled)
	for _, p := range []player{{name: "bad", run: nothing, after: fails}, {name: "bad", run: func(int) { panic("not reached") }, before: fails}} {
		err := play(t.Context(), p)
		require.ErrorIs(t, err, wrong)
		require.ErrorContains(t, err, "x: bad: ")
	}

	for _, from := range []int64{1, 5, 20, 30} {
		for _, callers := range []int{1, 16} {
			calls := new(atomic.Int64)
			l := load{"", callers, func(string, int, int) error { return []error{nil, wrong}[min(calls.Add(1)/from, 1)] }}
			rotates := func(ctx context.Context) error {
				return failing(func() { rotate(ctx, s, []service{{name: "y"}}, []load{l}, time.Millisecond, make(samples), io.Discard) })
			}
			require.ErrorIs(t, rotates(over), context.Canceled)
			err := rotates(t.Context())
			require.ErrorIs(t, err, wrong)
			require.ErrorContains(t, err, "y: ")
		}
	}
	require.NoError(t, passed(true, nil))
	require.ErrorIs(t, passed(false, wrong), wrong)
	require.ErrorContains(t, passed(false, nil), "must pass")
}

// New clients have an instance that has not met them.
func TestNewClientsAreNew(t *testing.T) {
	for _, q := range requests() {
		if q.beside != asFirst {
			continue
		}
		a := q.open(new(opening))
		a.population, a.next = newPopulation(10), 10
		made, renew := 0, a.renew
		a.renew = func() http.Handler { made++; return renew() }
		for i, want := range []int{1, 1, 2, 2, 3} { // after two turns two clients are left
			require.NoError(t, a.before(4))
			a.run(4)
			require.NoError(t, a.after(4))
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

// A population that is not answered as is meant, or shows tokens that are not its own, is not measured.
func TestPopulationsNoticeWhatIsNotAsMeant(t *testing.T) {
	asks := func(c *population, h http.Handler, want int) error {
		return failing(func() { c.ask(h, want, 2, time.Millisecond) })
	}
	var n atomic.Int64
	status := func(status func() int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s := status(); s != http.StatusOK {
				w.WriteHeader(s)
				return
			}
			served().ServeHTTP(w, r)
		})
	}
	empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	once := status(func() int {
		return map[bool]int{true: http.StatusTooManyRequests, false: http.StatusOK}[n.Add(1) == 70]
	})
	require.NoError(t, asks(newPopulation(100), served(), http.StatusOK))
	require.ErrorContains(t, asks(newPopulation(100), once, http.StatusOK), "answered 429 with 0 bytes")
	require.ErrorContains(t, asks(newPopulation(100), served(), http.StatusTooManyRequests), "answered 200 with 2 bytes")
	require.ErrorContains(t, asks(newPopulation(100), empty, http.StatusOK), "answered 200 with 0 bytes")
	for want, terms := range map[int]terms{http.StatusOK: plenty(100), http.StatusTooManyRequests: one(100)} {
		for _, b := range []builder{ours(), newFloor} {
			c, h := newPopulation(100), b(new(opening), terms)
			c.visit(h)
			require.NoError(t, asks(c, h, want))
			c.tokens = slices.Concat(c.tokens[c.length:], c.tokens[:c.length]) // each shows that of the next
			if want == http.StatusOK {                                         // whom it refuses it tells nothing
				require.ErrorContains(t, asks(c, h, want), "an answer is not as meant", want)
			}
		}
	}
}

// Each budget is kept below its figure, and not above; of what was not measured the table says nothing.
func TestBudgets(t *testing.T) {
	for _, b := range budgets {
		at := strings.IndexAny(b.figure, "/-%")
		for verdict, factor := range map[string]float64{"kept": 0.99, "**not kept**": 1.01} {
			s, measured := make(samples), factor*b.most
			if b.figure[at] == '%' { // of one above none, where another is one above it
				measured++
			}
			for _, rows := range rowsOf() {
				for _, row := range rows {
					row = strings.Trim(row, "`")
					if delete(s, row); b.figure[at] == '%' && !strings.HasPrefix(row, none) {
						s.add(row, b.figure[:at], 2)
					} else {
						s.add(row, b.figure[:at], 1)
					}
				}
			}
			delete(s, b.row)
			require.NotContains(t, budgetTable(&results{Kinds: map[string]samples{b.kind: s}}), "| "+b.what+" |")
			s.add(b.row, b.figure[:at], measured)
			require.Regexp(t, `\| `+strings.NewReplacer("`", ".", "(", ".", ")", ".").Replace(b.what)+` \|[^\n]*\| `+strings.ReplaceAll(verdict, "*", `\*`)+` \|`,
				budgetTable(&results{Kinds: map[string]samples{b.kind: s}}))
		}
	}
}
