package redis

import (
	"log/slog"
	"sync"
	"time"
)

// alarms are what a counter tells beside its errors, each at most once a minute. The zero
// time is of an alarm that has not rung.
type alarms struct {
	log *slog.Logger

	mu                    sync.Mutex
	clock, evicts, silent time.Time
}

// wrongClock tells of an account that begins anew.
func (a *alarms) wrongClock(ahead time.Duration) {
	if a.due(&a.clock) {
		a.log.Warn("tallystick: the clock of the redis server was wrong: an account that it has charged begins anew", "ahead", ahead.Round(time.Second))
	}
}

// due reports whether it is time for an alarm.
func (a *alarms) due(rang *time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !rang.IsZero() && time.Since(*rang) < time.Minute {
		return false
	}
	*rang = time.Now()
	return true
}
