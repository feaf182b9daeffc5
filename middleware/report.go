// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A reporter writes at most one line a minute for each check, so that an attack cannot fill
// the disk. Each line has the check's code, and the page that says what to do.
type reporter struct {
	log    *slog.Logger
	policy string
	alarms *alarms // of the Middleware, whatever its configuration
}

// The alarms of a Middleware outlive its configurations: else each Reconfigure would
// ring them anew, and leave an outage without its end.
type alarms struct {
	rang [numFindings]alarm

	down    atomic.Bool // the log says that the exact counter does not answer
	watch   watch       // for proxies that are taken for clients
	lookout lookout     // for what is amiss around a handler
	unknown unknown     // secrets: who shows what another one has signed

	pageTold atomic.Bool // once: it may be meant, as a gate
}

// warn logs one line, unless the check has done so within the last minute.
func (r *reporter) warn(now time.Time, c finding, message string, args ...any) {
	if r.alarms.rang[c].due(now) {
		r.tell(slog.LevelWarn, c, message, args...)
	}
}

func (r *reporter) tell(level slog.Level, c finding, message string, args ...any) {
	args = append([]any{"policy", r.policy, "code", codes[c]}, args...)
	r.log.Log(context.Background(), level, "tallystick: "+message, append(args, "page", checksPage+codes[c])...)
}

// inherited tells the operator to make the memory larger, or of a flood.
func (r *reporter) inherited(now time.Time) {
	r.warn(now, memoryFull, "memory saturated: clients that it does not know begin with the smallest counts of others, and may be refused early", "remedy", "raise Config.MaxClients")
}

// saturated is the same for what is paid for with work.
func (r *reporter) saturated(now time.Time) {
	r.warn(now, salesFull, "memory saturated: it has no room for what is paid for with work, and nothing more is sold", "remedy", "raise Config.MaxClients")
}

// counterFailed tells of a call that has failed.
func (r *reporter) counterFailed(now time.Time, err error) {
	r.warn(now, counterFailed, "exact counter failed a request", "error", err)
}

// counterDown tells of an outage once, and not more than once a minute. One that comes
// too soon after another is told of by a later probe.
func (r *reporter) counterDown(now time.Time, consequence string, err error) {
	if !r.alarms.down.Load() && r.alarms.rang[counterSilent].due(now) {
		r.alarms.down.Store(true)
		r.tell(slog.LevelError, counterSilent, "exact counter does not answer; "+consequence, "error", err)
	}
}

// counterAnswers ends an outage that was told of: each alarm has its all-clear, and no
// other. That one node of a cluster answers does not end the outage of another.
func (r *reporter) counterAnswers(now time.Time, guard *guardedcall.Guard) {
	if r.alarms.down.Load() && guard.Well(now) && r.alarms.down.Swap(false) {
		r.tell(slog.LevelInfo, counterBack, "exact counter answers again")
	}
}

// counterRefuses tells of load that does not end, a crowd is none: it passes; and of a counter that
// has no room, at once: somebody can give it more.
func (r *reporter) counterRefuses(now time.Time, outcome guardedcall.Outcome, err error, guard *guardedcall.Guard) {
	switch outcome {
	case guardedcall.Answered:
		return
	case guardedcall.Full:
		r.warn(now, counterFull, "exact counter has no room, and refuses customers", "error", err)
		return
	}
	because, err, does := guard.Refuses(now)
	if !does {
		return
	}
	args := []any{"because", callOf(because)}
	if err != nil { // else there was no place to wait
		args = append(args, "error", err)
	}
	r.warn(now, counterRefuses, "exact counter answers, and most requests of most of ten seconds were refused as load", args...)
}

// An alarm rings at most once a minute.
type alarm struct{ last atomic.Int64 }

// due takes a clock that has stepped back by a minute for one that was wrong
// before, and less for requests that overtake each other.
func (a *alarm) due(now time.Time) bool {
	last, second := a.last.Load(), now.Unix()
	return (second >= last+60 || second <= last-60) && a.last.CompareAndSwap(last, second)
}
