// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
)

// Every proof that is not accepted is counted once, by its reason, at the endpoint and with a request; Reconfigure
// forgets none.
func TestStatsCountProofs(t *testing.T) {
	elsewhere, want := from("203.0.113.9"), map[string]uint64{}
	counts := func(reason string, n uint64) func(*scene) {
		return func(s *scene) {
			want[reason] = n
			require.Equal(s, want, noted(s.site.M.Stats().Proofs))
		}
	}
	play(t, []scenario{{"by reason", working(middleware.Newcomers), []step{
		{see: all{func(s *scene) {
			require.Empty(s, noted(s.site.M.Stats().Proofs))
			require.Equal(s, "contact", s.site.M.Stats().Policy)
			require.Nil(s, s.site.M.Stats().Counter, "there is none")
		}}},
		{as: toFetch, want: 200, keep: "mine", see: all{func(s *scene) {
			require.EqualValues(s, 1, s.site.M.Stats().Challenges)
			require.EqualValues(s, s.cfg.Challenge.Work, s.site.M.Stats().Work)
		}}},
		{as: both(elsewhere, toRedeem), prove: "mine", want: 403}, {as: elsewhere, prove: "mine", want: 403, see: all{counts("client-changed", 2)}},
		{do: func(s *scene) {
			requireStatus(s, http.StatusForbidden, send(s.site, proving(solve(s, s.challenges["mine"])+"0")))
		}, see: all{counts("wrong-solution", 1)}},
		{prove: "mine", times: 2, want: 200}, {want: 403, see: all{counts("accepted", 1), func(s *scene) { // one that is shown again has bought nothing more
			require.EqualValues(s, 5, s.site.M.Stats().Challenges, "one was fetched, and four came with refusals")
		}}},
		{as: both(elsewhere, toFetch), want: 200, keep: "cheap"}, {do: buys("1", elsewhere)}, {do: buys("2", elsewhere)}, {do: buys("3", elsewhere)},
		{as: both(elsewhere, toRedeem), prove: "cheap", want: 403, see: all{func(*scene) { want["price-risen"] = 1 }, counts("accepted", 4)}},
		{after: time.Hour, as: elsewhere, prove: "cheap", want: 403, see: all{counts("expired", 1)}},
		{do: becomes(func(cfg *middleware.Config) { cfg.Challenge.Mode = middleware.EveryRequest }), as: toFetch, want: 200, keep: "single"},
		{prove: "single", want: 200}, {prove: "single", want: 403, see: all{func(*scene) { want["replayed"] = 1 }, counts("accepted", 5)}},
	}}})
}

// What an operator hears of a counter: what came of each call, how long it took, whether
// it is down, and how many of its places are taken.
func TestStatsAndDecisionsTellOfTheCounter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := new(clock)
		l := newLedger(c)
		cfg := hasty(c, l)
		cfg.Exact.InFlight = 8
		decisions := record(&cfg)
		m := newLimiter(t, cfg)
		h := m.Handler(new(spy))
		require.Zero(t, *m.Stats().Counter)

		took := 7 * time.Millisecond
		l.Fault = func(context.Context, int) error {
			require.Equal(t, 1./8, m.Stats().Counter.Utilization, "the call that is out")
			time.Sleep(took)
			return nil
		}
		require.Equal(t, 5, admitted(h, 5))
		require.Equal(t, "answered", decisions.Last().Call)
		require.Equal(t, took, decisions.Last().CallTook)
		send(h)
		require.Equal(t, "answered", decisions.Last().Call, "a refusal is an answer")
		send(h)
		require.Equal(t, "", decisions.Last().Call, "it remembers")
		require.Zero(t, decisions.Last().CallTook)
		require.Zero(t, *m.Stats().Counter)

		c.Advance(time.Minute)
		for err, want := range map[error]string{exact.ErrFull: "full", exact.ErrContended: "contended"} {
			l.Fault = func(context.Context, int) error { return err }
			send(h)
			require.Equal(t, want, decisions.Last().Call)
			require.False(t, m.Stats().Counter.Down)
		}

		l.Fault = onFire
		send(h)
		require.Equal(t, "failed", decisions.Last().Call)
		breaks(h, c)
		require.Contains(t, []string{"down", "skipped"}, decisions.Last().Call)
		send(h)
		require.Equal(t, "skipped", decisions.Last().Call)
		require.Equal(t, &middleware.CounterStats{Down: true}, m.Stats().Counter)
		require.NoError(t, m.Reconfigure(cfg))
		require.Zero(t, *m.Stats().Counter, "a counter that nobody has asked yet")
	})
}
