// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// replies are what became of the calls with an ID that this instance knows of. An account
// carries the IDs of admitted calls for all instances, but only the last ones, and a load
// that finds one may be part of a call that then loses its races: what was found once
// stays known. Refusals are here alone: they change nothing in the store, or to refuse
// would cost as much as to admit. A repeat of one that comes to another instance is decided
// anew, which charges nobody twice.
type replies struct {
	mu   sync.Mutex
	kept engine.Idempotency
}

// find returns the verdict of an earlier call with that ID.
func (r *replies) find(now time.Time, account, id string) (exact.Verdict, bool) {
	if id == "" {
		return exact.Verdict{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept.Find(now, account, id)
}

// keep remembers a verdict.
func (r *replies) keep(now time.Time, account, id string, v exact.Verdict) {
	if id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Keep(now, account, id, v)
}
