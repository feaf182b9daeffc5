// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func newExplorer(t *testing.T, w World) *explorer {
	t.Helper()
	return kit.Must(w.explorer())(t)
}

// A reader that is told of a broken rule must be able to follow: here the oracle believes in a smaller
// quota than the limiter has.
func TestTraceTellsTheShortestWay(t *testing.T) {
	limit := storeless.Limit{Quota: 2, Window: 10 * time.Second, Algorithm: storeless.FixedWindow}
	w := newExplorer(t, World{Limit: limit, Instances: 2, Restarts: 1, Moments: []time.Duration{0, 10 * time.Second}})
	w.laws[0][shared][0].quota = 1
	r := w.explore()
	require.Equal(t, "one instance admits more than the quota", r.Broken)
	require.Equal(t, []string{
		`instance 1, which holds nothing, is asked with ["nothing of tally 0"]: admitted true, (window 1: 1, before: 0) of tally 0`,
		`instance 1, which holds nothing, is asked with ["(window 1: 1, before: 0) of tally 0"]: admitted true, (window 1: 2, before: 0) of tally 0`,
	}, r.Trace)
}

// Each kind of move has its words.
func TestMovesAreTold(t *testing.T) {
	limit := storeless.Limit{Quota: 1, Window: 10 * time.Second, Algorithm: storeless.FixedWindow}
	bucket := storeless.Limit{Quota: 5, Burst: 1, Window: 10 * time.Second, Algorithm: storeless.TokenBucket}
	two := []time.Duration{9500 * time.Millisecond, 10 * time.Second}
	for want, w := range map[string]World{
		"it is 10s into the first window":                         {Limit: limit, Instances: 1, Moments: two},
		"instance 1, which holds nothing, restarts":               {Limit: limit, Instances: 1, Restarts: 1, Moments: two},
		"instance 1, which holds nothing, has a clock that steps": {Limit: limit, Instances: 1, Moments: two, Step: time.Second},
		"a request is sent with nothing":                          {Limit: limit, Instances: 1, Moments: two, Client: Parallel, AtOnce: 1},
		"an answer arrives with (window 1: 1, before: 0)":         {Limit: limit, Instances: 1, Moments: two, Client: Parallel, AtOnce: 1},
		`instance 1, which holds nothing, sells with []: admitted true, nothing of tally 1`: {
			Limit: limit, Instances: 1, Moments: []time.Duration{9 * time.Second, 10 * time.Second}, Mode: middleware.Newcomers, Tallies: 1, Shop: true,
		},
		`instance 1, which holds a mark at 11500ms, is asked with ["nothing of tally 0"]: admitted false, a mark at 11500ms of tally 0`: {
			Limit: bucket, Instances: 1, Moments: two,
		},
	} {
		t.Run(want, func(t *testing.T) {
			e := newExplorer(t, w)
			var told []string
			Search(e.start(), func(s *state, yield func(move, state, string)) {
				e.moves(s, func(m move, next state, fault string) {
					told = append(told, e.told(s, &m))
					yield(m, next, fault)
				})
			})
			require.Contains(t, told, want)
		})
	}
}
