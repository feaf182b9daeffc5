// SPDX-License-Identifier: Apache-2.0

package lease

import "github.com/tallystick/tallystick/middleware/exact/engine"

// Keys is of how many keys something is known.
func Keys(counter engine.ArchiveCloser) int {
	l := counter.(*leasing)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
