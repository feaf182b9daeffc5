// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// A leasing is the counter of [New].
type leasing struct {
	engine exact.Counter
	terms  Config

	mu      sync.Mutex
	keys    map[string]*leaseholder
	replies engine.Idempotency
	back    []exact.Receipt // to give back when the timer looks
	timer   *time.Timer     // nil: nothing to do
	tidying sync.WaitGroup
	closed  bool
}

// New returns a counter that takes blocks from an engine and counts within them by itself, so
// that most calls make no round trip. It reports all problems of l, each a [storeless.ConfigError].
//
// The counter never admits more than the engine would.
// What it costs, and why it is a choice:
//
//   - Near the limit calls may be refused too early, while others hold blocks: at
//     most a twentieth of the limit, until the blocks are given back. A refusal
//     says to come again after Idle, so that what comes back is found.
//   - What a process holds when it is killed, or a block whose answer is lost, stays
//     counted to the end of its window: at most Block calls of a key, and a twentieth of
//     an even share of what was left. By default, Instances 1, each kill then takes 5 % of
//     what is left of a small quota: after 20 of them in one window 59 % of a limit of 1000
//     was stranded, with Instances 4 17 %, and 12 % of a limit of 10,000. Set Instances.
//   - How the limits stand is what the engine said last, less what was counted since.
//   - A call that was counted within a block can be refunded only while the block is
//     held, and its ID is known to this counter alone, not to others of the engine:
//     do not lease where clients choose IDs.
//
// A block is good in the window it was taken in, by the engine's clock; under a [storeless.RollingDay],
// in the minute. Policies with a [storeless.SlidingLog] or a bucket go through unleased. In a bucket, what
// was charged early would have leaked out when it is used: docs/counters.md has more. Where blocks
// shrink below two calls, calls go through as well, and so do those with Costs, Past, Ahead or Pause. A
// pause, or a call with Costs, ends the block of the counter that it is asked
// of; what others hold then is still admitted, up to a block each.
//
// A timer runs while keys are in use. Close gives back what is held, and returns the errors of what it could
// not give back within five seconds. Calls after it go through.
func New(counter exact.Counter, l Config) (engine.ArchiveCloser, error) {
	l = l.withDefaults()
	if err := l.check(counter); err != nil {
		return nil, err
	}
	return &leasing{engine: counter, terms: l, keys: make(map[string]*leaseholder)}, nil
}

// Part implements [engine.Partitioned].
func (l *leasing) Part(call exact.Call) int {
	if parted, ok := l.engine.(engine.Partitioned); ok {
		return parted.Part(call)
	}
	return 0
}

// Deadline returns the deadline that the engine names for its calls, or 0.
func (l *leasing) Deadline() time.Duration {
	if slow, ok := l.engine.(interface{ Deadline() time.Duration }); ok {
		return slow.Deadline()
	}
	return 0
}
