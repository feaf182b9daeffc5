// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/markdown"
	"github.com/tallystick/tallystick/internal/peers/turns"
)

// The units of what players that take turns have.
const (
	tenth     = "p10-cpu-sec/op"
	tenthWall = "p10-sec/op"
	halfWall  = "p50-sec/op"
)

// measureRequests measures the requests of all contestants.
func measureRequests(ctx context.Context, o options, out, progress io.Writer) error {
	long, groups := time.Minute, max(5, o.count)
	if o.quick {
		long, groups = 10*time.Second, 5
	}
	return peers.MeasureRequests(ctx, groups, long, out, progress)
}

// A triple is the median, the least and the most of some groups.
type triple struct{ median, least, most float64 }

// ratio returns the first divided by the second, group by group: both were measured within
// moments of each other.
func (r *results) ratio(a, b target, unit string) triple {
	return tripleOf(quotients(r.samples[a][unit], r.samples[b][unit]))
}

func quotients(a, b []float64) []float64 {
	if len(a) != len(b) {
		return nil
	}
	all := make([]float64, len(a))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}

func tripleOf(all []float64) triple {
	if len(all) == 0 {
		return triple{math.NaN(), math.NaN(), math.NaN()}
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return triple{(all[n/2] + all[(n-1)/2]) / 2, all[0], all[n-1]}
}

// String writes a ratio with its range.
func (t triple) String() string {
	if math.IsNaN(t.median) {
		return unmeasured
	}
	return fmt.Sprintf("%s (%s–%s)", ratio(t.median), ratio(t.least), ratio(t.most))
}

// player returns what is measured of a contestant.
func (r *results) player(c peers.Contestant) target {
	for _, kind := range []string{"Request", "First"} {
		if id := (target{turns.Benchmark(kind, c.Name), 1}); r.samples[id] != nil {
			return id
		}
	}
	return target{}
}

// requestTable is what one request of each contestant costs.
func requestTable(r *results) string {
	t := markdown.New("", "", "limiter", "a request", "p10, ns", "× httprate", "× throttled", "mean, ns", "× httprate", "B", "allocations")
	for _, c := range peers.Contestants() {
		id := r.player(c)
		if r.samples[id] == nil {
			continue
		}
		h, th := r.player(peers.Contestant{Name: reference + c.Beside}), r.player(peers.Contestant{Name: "throttled" + c.Beside})
		t.Row("`"+c.Name+"`", c.Text, nanosOf(r, id, tenth), r.ratio(id, h, tenth).String(), r.ratio(id, th, tenth).String(),
			nanosOf(r, id, cpu), r.ratio(id, h, cpu).String(), whole(r.medianOf(id, space)), whole(r.medianOf(id, allocs)))
	}
	return t.String()
}

func nanosOf(r *results, id target, unit string) string {
	return fmt.Sprintf("%.0f", r.medianOf(id, unit)*1e9)
}

// medianOf is the median of all groups.
func (r *results) medianOf(id target, unit string) float64 {
	return tripleOf(r.samples[id][unit]).median
}
