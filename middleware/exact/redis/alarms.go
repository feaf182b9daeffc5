// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tallystick/tallystick/internal/span"
)

// alarms are the log lines of a counter beside its errors, each at most once a minute.
type alarms struct {
	log *slog.Logger

	mu   sync.Mutex
	rang map[string]time.Time // by code
}

// page is where each code is explained.
const page = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"

// tell writes a line with the code of what it is about, and what to do, if it is a minute since the last.
func (a *alarms) tell(level slog.Level, code, message, remedy string, args ...any) {
	if !a.due(code) {
		return
	}
	args = append([]any{"code", code}, args...)
	a.log.Log(context.Background(), level, "tallystick: "+message, append(args, "remedy", remedy, "page", page+code)...)
}

// due reports whether it is time for the alarm of a code.
func (a *alarms) due(code string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rang, ok := a.rang[code]; ok && time.Since(rang) < time.Minute {
		return false
	}
	if a.rang == nil {
		a.rang = make(map[string]time.Time)
	}
	a.rang[code] = time.Now()
	return true
}

// wrongClock tells of an account that begins anew.
func (a *alarms) wrongClock(ahead time.Duration) {
	a.tell(slog.LevelWarn, "redis-clock-jumped", "the clock of the redis server was wrong: an account that it has charged begins anew", "mend the clock of the server", "ahead", span.Text(ahead.Round(time.Second)))
}

// away tells of a server that could not be reached when the counter was opened. Later failures are
// for the calls to tell.
func (a *alarms) away(err error) {
	a.tell(slog.LevelWarn, "redis-away", "the redis server cannot be reached yet: each call will try again", "start it, or mend the URL", "error", err)
}

// evicts tells of a server that evicts: calls fail from now on, but accounts may be gone.
func (a *alarms) evicts(err error) {
	a.tell(slog.LevelError, "redis-evicts", "the redis server would evict keys, and calls fail until it would not", "set maxmemory-policy noeviction, or give the counter a server of its own", "error", err)
}

// silent tells of a server that cannot be asked whether it evicts.
func (a *alarms) silent(err error) {
	a.tell(slog.LevelWarn, "redis-silent", "the redis server does not say whether it evicts keys, and so gives away quotas", "allow its user INFO, or set DangerouslyAllowEviction if it may", "error", err)
}

// emptied tells of a server that has started anew, and lacks most of the keys that it had.
func (a *alarms) emptied(had, has int64) {
	a.tell(slog.LevelError, "redis-emptied", "the redis server has started anew without most of its keys: quotas that were used are given back", "set appendonly yes", "had", had, "has", has)
}

// unreadable logs the key of an account that cannot be read: only an operator can mend it.
func (a *alarms) unreadable(key string, err error) {
	a.tell(slog.LevelError, "redis-unreadable", "what is stored for an account cannot be read, and its calls fail until it is deleted", "update older instances; if there is none, delete the key, and what begins with it", "key", key, "error", err)
}
