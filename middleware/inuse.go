// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"weak"
)

// Two middlewares of one policy count apart: who asks both gets the limit twice, as from two machines.
// No request tells that they are in one process, unless it passes both (policy-twice), and a mark in tokens
// would be on the wire for the sake of a mistake at home. What outlives both has to know of both. So
// this is the one thing that the package remembers beside its values. It decides nothing, and its pointers are weak:
// it keeps no middleware. One that was dropped counts until it is collected: until then it may be in use,
// and its counts are lost either way, which Reconfigure would have kept.
var inUse register

// A register knows the middlewares of a process that are in use, by their alarms, which are a part of each.
type register struct {
	mu  sync.Mutex
	all map[entry][]weak.Pointer[alarms]
}

// An entry is a policy of a program: of those who log to one logger. Tests, and fleets that are played in
// one process, have loggers of their own.
type entry struct {
	policy string
	log    weak.Pointer[slog.Logger]
}

// second adds the middleware that a reporter is of, and reports whether it is the second of its entry.
func (r *register) second(of *reporter) (second bool) {
	if !of.log.Enabled(context.Background(), slog.LevelWarn) {
		return false // nobody would read of it
	}
	at := entry{of.policy, weak.Make(of.log)}
	r.mu.Lock()
	defer r.mu.Unlock()
	second = len(r.live(at)) == 1
	if r.all == nil {
		r.all = map[entry][]weak.Pointer[alarms]{}
	}
	r.all[at] = append(r.all[at], weak.Make(of.alarms))
	runtime.AddCleanup(of.alarms, r.forget, at)
	return second
}

// live strikes from an entry those who are gone, and returns the others. The lock is held.
func (r *register) live(at entry) (live []weak.Pointer[alarms]) {
	for _, one := range r.all[at] {
		if one.Value() != nil {
			live = append(live, one)
		}
	}
	if live == nil {
		delete(r.all, at)
	} else {
		r.all[at] = live
	}
	return live
}

// forget strikes an entry of which the last is gone.
func (r *register) forget(at entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live(at)
}
