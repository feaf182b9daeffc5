// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

func TestByOutcomeIncorrect(t *testing.T) {
	c := new(clock)
	challenge := func(mode middleware.Mode, share int64) func(*middleware.Config) {
		return func(cfg *middleware.Config) {
			cfg.Challenge = &middleware.Challenge{Mode: mode}
			cfg.Challenge.WaitingRoom = share
		}
	}
	for _, test := range []struct {
		name    string
		change  func(*middleware.Config)
		field   string
		problem string
	}{
		{"no limits", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = nil }, "ByOutcome.Limits", "must name"},
		{"an unknown limit", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failure"} },
			"ByOutcome.Limits", `"failure" is none of attempts, failures`},
		{"a limit twice", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failures", "failures"} },
			"ByOutcome.Limits", `has "failures" twice`},
		{"no plain limit", func(cfg *middleware.Config) { cfg.ByOutcome.Limits = []string{"failures", "attempts"} },
			"ByOutcome.Limits", "must leave out at least one"},
		{"early hints are free", func(cfg *middleware.Config) { cfg.ByOutcome.Free = []int{103} }, "ByOutcome.Free", "200 to 599, not 103"},
		{"no status is free", func(cfg *middleware.Config) { cfg.ByOutcome.Free = []int{303, 0} }, "ByOutcome.Free", "not 0"},
		{"a counter", func(cfg *middleware.Config) {
			cfg.Exact = &middleware.Exact{Counter: memory.New(0, c.Now), Outage: middleware.FailClosed}
		}, "ByOutcome", "cannot go with Exact"},
		{"no memory", func(cfg *middleware.Config) { cfg.InsecureNoMemory = true }, "ByOutcome", "cannot go with InsecureNoMemory"},
		{"guesses for sale", challenge(middleware.WhenExhausted, 0), "ByOutcome", "so many guesses more"},
		{"guesses for sale to newcomers", challenge(middleware.Newcomers, 0), "ByOutcome", "so many guesses more"},
		{"guesses for a wait", challenge(middleware.EveryRequest, 5), "ByOutcome", "guesses for a wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := login(c)
			test.change(&cfg)
			_, err := middleware.New(cfg)
			require.Error(t, err)
			var fields, problems []string
			for problem := range storeless.ConfigErrors(err) {
				fields, problems = append(fields, problem.Field), append(problems, problem.Problem)
			}
			require.Equal(t, []string{test.field}, fields)
			require.Contains(t, problems[0], test.problem)
		})
	}
	cfg := login(c)
	challenge(middleware.EveryRequest, 0)(&cfg)
	_, err := middleware.New(cfg)
	require.NoError(t, err, "work for each guess is the right thing")
}
