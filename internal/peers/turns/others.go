// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"time"

	"github.com/tallystick/tallystick/internal/peers/machine"
)

// tick is the unit of [machine.Ticks].
const tick = 10 * time.Millisecond

// watch begins to watch what other programs do on the machine. What it returns tells which
// share of all processors they have used since, and whether that can be told.
func watch() func() (share float64, ok bool) {
	used, total, ok := machine.Ticks()
	ours, _ := ProcessorTime()
	return func() (float64, bool) {
		usedNow, totalNow, okNow := machine.Ticks()
		oursNow, _ := ProcessorTime()
		return shareOf(time.Duration(usedNow-used)*tick-(oursNow-ours), time.Duration(totalNow-total)*tick), ok && okNow
	}
}

// shareOf returns which part of all that is; ticks that were rounded make no negative one.
func shareOf(part, all time.Duration) float64 {
	if all <= 0 {
		return 0
	}
	return max(0, float64(part)/float64(all))
}
