// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"log/slog"
	"strings"
	"time"
)

// What instances disagree about. Each decides by itself, and sees of the others only what they have signed:
//
//   - By another secret. Anybody can write a token or a challenge that looks like that, for one client or for a
//     /48. So clients of several networks have to show such ones. One request a second is looked at.
//   - Under another clock. A window, or a challenge, that begins later than now and that a secret of ours has
//     signed cannot be made up: the first one is told of. What has expired says nothing, as anybody may keep it.
//
// Neither decides anything.

// clockDiffers tells of a clock that was ahead of now by so much, at least.
func (e *engine) clockDiffers(now time.Time, by time.Duration) {
	if !e.report.alarms.rang[clockDiffers].due(now) {
		return // nothing is allocated for each token of a fleet that is all wrong
	}
	e.report.tell(slog.LevelWarn, clockDiffers, "an instance has signed what begins later than now: the clock of this one is behind, or that of the other is ahead",
		"ahead", by.Truncate(time.Second), "remedy", "have all instances keep their clocks by NTP")
}

// secretUnknown notes that a client shows what no secret of ours has signed.
func (e *engine) secretUnknown(now time.Time, id *Identity) {
	if e.report.alarms.unknown.note(now, id) {
		e.report.warn(now, secretUnknown, "clients of several networks show what another secret has signed",
			"kids", strings.Join(e.codec.KeyIDs(), ","), "remedy", "give all instances the same Config.Secrets, and drop an old one after TokenLife only")
	}
}
