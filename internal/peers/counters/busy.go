// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"time"

	"github.com/tallystick/tallystick/internal/peers/machine"
)

// busy does nothing for a while, and returns which share of all processors others kept
// busy meanwhile, and whether that can be told.
func busy(long time.Duration) (float64, bool) {
	used, total, ok := machine.Ticks()
	time.Sleep(long)
	usedAfter, totalAfter, okAfter := machine.Ticks()
	if !ok || !okAfter || totalAfter == total {
		return 0, false
	}
	return float64(usedAfter-used) / float64(totalAfter-total), true
}
