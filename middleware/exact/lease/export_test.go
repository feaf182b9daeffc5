// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// Keys is of how many keys something is known.
func Keys(counter engine.ArchiveCloser) int {
	l := counter.(*leasing)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// AwaitBlock is what becomes of a call that the engine has refused.
func AwaitBlock(counter engine.ArchiveCloser, ctx context.Context, call exact.Call, refused exact.Verdict) exact.Verdict {
	return counter.(*leasing).awaitBlock(ctx, &call, refused)
}
