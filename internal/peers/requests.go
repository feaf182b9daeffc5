// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"io"
	"time"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// pace is how much is allocated between two collections while requests are measured: what a
// program allocates in which there is nothing but one limiter of ours, with a memory of 7 MiB.
const pace = 8 << 20

// MeasureRequests measures all contestants through ServeHTTP, on one processor. Those
// that meet new clients do it among themselves, at the end: the maps that they fill would make
// each collection dearer for all.
func MeasureRequests(ctx context.Context, groups int, long time.Duration, out, progress io.Writer) error {
	known := turns.Plan{Kind: "Request", Slice: 1500, Groups: groups, For: long * 5 / 6, Pace: pace}
	first := turns.Plan{Kind: "First", Slice: 1500, Groups: groups, For: long / 6, Pace: pace}
	for _, c := range Contestants() {
		plan := &known
		if c.Beside == asFirst {
			plan = &first
		}
		player, err := c.Player()
		if err != nil {
			return err
		}
		plan.Players = append(plan.Players, player)
	}
	if err := turns.Measure(ctx, known, out, progress); err != nil {
		return err
	}
	return turns.Measure(ctx, first, out, progress)
}
