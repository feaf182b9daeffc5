// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"slices"
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

// A register knows the middlewares of a process that are in use.
type register struct {
	mu  sync.Mutex
	all []entry
}

// An entry is a middleware of a policy of a program: of those who log to one logger. Tests, and fleets that
// are played in one process, have loggers of their own.
type entry struct {
	policy string
	log    weak.Pointer[slog.Logger]
	of     weak.Pointer[alarms]
}

// second adds the middleware that a reporter is of, strikes those who are gone, and reports whether it
// is the second of its policy.
func (r *register) second(of *reporter) bool {
	if !of.log.Enabled(context.Background(), slog.LevelWarn) {
		return false // nobody would read of it
	}
	e, others := entry{of.policy, weak.Make(of.log), weak.Make(of.alarms)}, 0
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(known entry) bool { return known.of.Value() == nil })
	for _, known := range r.all {
		if known.policy == e.policy && known.log == e.log {
			others++
		}
	}
	r.all = append(r.all, e)
	return others == 1
}
