// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// replies are the known outcomes of calls with an ID. An account carries the last IDs of
// admitted calls for all instances; an ID once found stays known here, also if the call
// that found it then loses its races. Refusals are known here alone: storing them would
// make a refusal as dear as an admission. Another instance decides a repeat anew, and
// charges nothing twice.
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
