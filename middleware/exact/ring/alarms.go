// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// page is where each code is explained.
const page = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"

// patience is for how long lists may differ, and lack this process, before that is a mistake and no deploy.
const patience = time.Minute

// alarms are what a ring tells, each at most once a minute but for changes.
type alarms struct {
	log *slog.Logger

	mu                                 sync.Mutex
	lastListed                         time.Time // or when the ring was opened
	leaving                            bool
	awayRang, unlistedRang, differRang time.Time
	differSince, differLast            time.Time
}

func (a *alarms) tell(level slog.Level, code, message, remedy string, args ...any) {
	args = append([]any{"code", code}, args...)
	a.log.Log(context.Background(), level, "tallystick: "+message, append(args, "remedy", remedy, "page", page+code)...)
}

// due reports whether it is time for an alarm. a.mu is held.
func (a *alarms) due(rang *time.Time) bool {
	if !rang.IsZero() && time.Since(*rang) < time.Minute {
		return false
	}
	*rang = time.Now()
	return true
}

// members tells of a list that is another. Changes are rare, and each moves keys.
func (a *alarms) members(before, now []string) {
	without := func(list, of []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(of, s) })
	}
	a.tell(slog.LevelInfo, "ring-members", "the ring has other members now", "compare with what is deployed", "members", len(now), "came", without(now, before), "went", without(before, now))
}

// away tells that nobody tells who is in the ring.
func (a *alarms) away(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.due(&a.awayRang) {
		a.tell(slog.LevelWarn, "ring-list-away", "nobody tells who is in the ring, and the last list stays in force", "mend DNS, or what Find asks", "error", err)
	}
}

// listed notes whether the list names this process, and tells of one that has not for long. A process that leaves
// is bound to be dropped.
func (a *alarms) listed(self string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is {
		a.lastListed = time.Now()
	}
	if !is && !a.leaving && time.Since(a.lastListed) > patience && a.due(&a.unlistedRang) {
		a.tell(slog.LevelWarn, "ring-not-listed", "the list of the ring does not name this process, which owns nothing", "compare Self with the list", "self", self)
	}
}

// leaves notes that this process leaves the ring.
func (a *alarms) leaves() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
}

// differ notes that another process has taken this one for the owner of a key that it does not own.
func (a *alarms) differ(self string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.differLast) > patience/4 {
		a.differSince = now
	}
	if a.differLast = now; now.Sub(a.differSince) > patience && a.due(&a.differRang) {
		a.tell(slog.LevelWarn, "ring-lists-differ", "another process asks this one for keys that it does not own: they have different lists, or secrets in another order", "give all processes the same list, and the same Secrets in one order", "self", self)
	}
}

// deaf tells that nobody hears the others any more.
func (a *alarms) deaf(err error) {
	a.tell(slog.LevelError, "ring-deaf", "this process does not hear the other members of the ring any more", "restart it; if its port is taken, free that", "error", err)
}
