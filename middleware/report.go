package middleware

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/guardedcall"
)

// A reporter writes at most one line a minute for each kind of trouble, so that an
// attack cannot fill the disk.
type reporter struct {
	log    *slog.Logger
	policy string
	alarms *alarms // of the Middleware, whatever its configuration
}

// The alarms of a Middleware outlive its configurations: else each Reconfigure would
// ring them anew, and leave an outage without its end.
type alarms struct {
	negativeCost, nobody, tier, noPort, doubt, proxy, crowd, saturated, crowded, issue, unmounted, failed, outage, limitsFor alarm

	down  atomic.Bool // the log says that the exact counter does not answer
	watch watch       // for proxies that are taken for clients
}

// warn logs one line, unless the alarm has rung within the last minute.
func (r *reporter) warn(now time.Time, a *alarm, message string, args ...any) {
	if a.due(now) {
		r.log.Warn("tallystick: "+message, append([]any{"policy", r.policy}, args...)...)
	}
}

// crowded tells the operator to make the memory larger, or of a flood.
func (r *reporter) crowded(now time.Time) {
	r.warn(now, &r.alarms.crowded, "memory saturated: clients that it does not know begin with the smallest counts of others, and may be refused early", "remedy", "raise Config.MaxClients")
}

// saturated is the same for what is paid for with work.
func (r *reporter) saturated(now time.Time) {
	r.warn(now, &r.alarms.saturated, "memory saturated: it has no room for what is paid for with work, and nothing more is sold", "remedy", "raise Config.MaxClients")
}

// counterFailed tells of a call that has failed.
func (r *reporter) counterFailed(now time.Time, err error) {
	r.warn(now, &r.alarms.failed, "exact counter failed a request", "error", err)
}

// counterDown tells of an outage once, and not more than once a minute. One that comes
// too soon after another is told of by a later probe.
func (r *reporter) counterDown(now time.Time, consequence string, err error) {
	if !r.alarms.down.Load() && r.alarms.outage.due(now) {
		r.alarms.down.Store(true)
		r.log.Error("tallystick: exact counter does not answer; "+consequence, "policy", r.policy, "error", err)
	}
}

// counterAnswers ends an outage that was told of: each alarm has its all-clear, and no
// other. That one node of a cluster answers does not end the outage of another.
func (r *reporter) counterAnswers(now time.Time, guard *guardedcall.Guard) {
	if r.alarms.down.Load() && guard.Well(now) && r.alarms.down.Swap(false) {
		r.log.Info("tallystick: exact counter answers again", "policy", r.policy)
	}
}

// An alarm rings at most once a minute.
type alarm struct{ last atomic.Int64 }

// due takes a clock that has stepped back by a minute for one that was wrong
// before, and less for requests that overtake each other.
func (a *alarm) due(now time.Time) bool {
	last, second := a.last.Load(), now.Unix()
	return (second >= last+60 || second <= last-60) && a.last.CompareAndSwap(last, second)
}
