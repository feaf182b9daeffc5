// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"log/slog"
	"time"

	"github.com/tallystick/tallystick/internal/span"
)

// page is where each code is explained.
const page = "https://github.com/tallystick/tallystick/blob/main/docs/checks.md#"

// An alarm holds what the log says of one kind of trouble.
type alarm struct {
	level                 slog.Level
	code, message, remedy string
}

var (
	membersAlarm   = alarm{slog.LevelInfo, "peers-members", "the list of peers has changed", "compare it with what is deployed"}
	listAwayAlarm  = alarm{slog.LevelWarn, "peers-list-away", "there is no list of peers, and the last one stays in force", "mend DNS, or what Find asks"}
	listsAlarm     = alarm{slog.LevelWarn, "peers-lists-differ", "a peer has had another list for a minute", "give all processes the same list: the log of the member has this line with its own"}
	unlistedAlarm  = alarm{slog.LevelWarn, "peers-not-listed", "the list of peers has not had this process for a minute: others may not find it", "compare the addresses of this machine, or Self, with the list"}
	lateAlarm      = alarm{slog.LevelWarn, "peers-late", "a peer does not answer: until it does, a client may get the limit from it again", "see whether it has stopped, is overloaded, or is cut off"}
	goneAlarm      = alarm{slog.LevelError, "peers-gone", "a peer has not answered for 10 s or more: what it admits is not known here", "start it again, or take it off the list; if it runs, mend the network, its Secrets or its port"}
	backAlarm      = alarm{slog.LevelInfo, "peers-back", "what was said of a peer is over", "do nothing"}
	aloneAlarm     = alarm{slog.LevelWarn, "peers-alone", "no peer has answered in a second: this process starts without their records", "if it is the only one, do nothing; if not, see that its port can be reached, and its Secrets are theirs"}
	sameAlarm      = alarm{slog.LevelWarn, "peers-same-self", "two processes have said this address for a minute: others may not find one of them", "give each process its own Self"}
	strangerAlarm  = alarm{slog.LevelWarn, "peers-stranger", "a connection comes from no peer: its hello is not signed by any of our Secrets", "if it is a process of yours, give it the same Secrets; if not, close the port to it"}
	secretsAlarm   = alarm{slog.LevelWarn, "peers-secrets-differ", "a peer has other Secrets, or has them in another order: neither counts what the other admits", "have the same Secrets in one order everywhere; while they are rotated, do nothing"}
	versionAlarm   = alarm{slog.LevelWarn, "peers-version", "a peer speaks another version: neither hears the other", "deploy one version everywhere"}
	clockAlarm     = alarm{slog.LevelWarn, "peers-clock", "the clock of a peer is ahead, or the clock of this process is behind: a window that one of them has not begun is counted apart", "have all processes keep their clocks by NTP"}
	malformedAlarm = alarm{slog.LevelError, "peers-malformed", "a peer sends what this process cannot read", "deploy one version everywhere; if that is so, look at that process"}
	fullAlarm      = alarm{slog.LevelWarn, "peers-full", "the table of what peers have told is full: a client whose record is evicted may get the limit from each process", "see that no client makes up identities"}
	manyAlarm      = alarm{slog.LevelError, "peers-many", "there are more than 64 processes: a peer is not heard", "use an exact counter"}
	deafAlarm      = alarm{slog.LevelError, "peers-deaf", "this process cannot be reached by its peers any more", "start it again; if its port is taken, free that"}
)

// Why what was said of a member is over.
const (
	answers  = "it answers"
	ended    = "it has said farewell"
	unlisted = "it is on no list"
)

// About is what an alarm has rung about: its code, and a member.
type about struct{ code, member string }

// A ringing is the last line of an alarm about a member.
type ringing struct {
	at   time.Time
	over bool
}

// alarms tell each trouble of each member at most once a minute. The end of what was told, and an error that comes again
// after its end, are told at once.
type alarms struct {
	log   *slog.Logger
	rang  map[about]ringing
	later []func() // to be written
}

// ring has a line written about a member, or, where that is "", about this process.
func (a *alarms) ring(of alarm, member string, args ...any) {
	now, key := time.Now(), about{of.code, member}
	last, known := a.rang[key]
	if known && now.Sub(last.at) < time.Minute && of != backAlarm && !(last.over && of.level == slog.LevelError) {
		return
	}
	if len(a.rang) > 4*maxMembers {
		clear(a.rang)
	}
	a.rang[key] = ringing{at: now}
	line := []any{"code", of.code}
	if member != "" {
		line = append(line, "member", member)
	}
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			args[i] = span.Text(d)
		}
	}
	line = append(append(line, args...), "remedy", of.remedy, "page", page+of.code)
	a.later = append(a.later, func() { a.log.Log(context.Background(), of.level, "tallystick: "+of.message, line...) })
}

// over tells that what has rung about a member since it was last over is over, if anything has. One that answers ends what
// has rung about a process that is alone.
func (a *alarms) over(member, because string) {
	told := false
	for _, key := range []about{{lateAlarm.code, member}, {goneAlarm.code, member}, {aloneAlarm.code, ""}} {
		if last, rang := a.rang[key]; rang && !last.over && (key.member == member || because == answers) {
			a.rang[key] = ringing{last.at, true}
			told = true
		}
	}
	if told {
		a.ring(backAlarm, member, "because", because)
	}
}
