// SPDX-License-Identifier: Apache-2.0

package world

import "time"

// window is the length of every window here, in seconds, and middle is where in it a round
// begins: far enough from both ends that clocks which disagree as they may are in one window.
//
// Clocks are moved by hand between rounds: so what is admitted hangs on counts, and not on how fast the machine is.
const (
	window = 60
	middle = 20
)

// begin is where the clocks begin: in the middle of a window of the exact routes, in or about 2026.
func begin(exact int64) int64 {
	return time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC).Unix()/exact*exact + halfway(exact)
}

func halfway(exact int64) int64 { return exact/2/window*window + middle }

// pass is by how much the clocks are put forward until all tokens have ended, those of the exact routes too, and
// again into the middle of a window of theirs: no cycle may see two of them.
func pass(exact, now int64) int64 { return 3*exact + halfway(exact) - now%exact }
