// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/checks.md prints each line as it is written, under the line's own code.
func TestAlarmsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/checks.md")
	require.NoError(t, err)
	for code, ring := range map[string]func(*alarms){
		"redis-clock-jumped": func(a *alarms) { a.wrongClock(2*time.Hour + 3*time.Millisecond) },
		"redis-away":         func(a *alarms) { a.away(errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")) },
		"redis-evicts":       func(a *alarms) { a.evicts(errEvicts) },
		"redis-silent":       func(a *alarms) { a.silent(errors.New("NOPERM this user has no permissions")) },
		"redis-unreadable": func(a *alarms) {
			a.unreadable("tallystick:{a6Zp8cVNmXlFE1uLGqCh3w}", errors.New("DAMAGED it is no account of this package, or not all of one"))
		},
	} {
		var log bytes.Buffer
		a := &alarms{log: slog.New(slog.NewTextHandler(&log, nil))}
		ring(a)
		line := regexp.MustCompile(`^time=\S+ `).ReplaceAllString(log.String(), "")
		require.Contains(t, line, " code="+code+" ")
		require.Contains(t, string(page), "\n### "+code+"\n")
		require.Contains(t, string(page), "```text\n"+line+"```\n")
	}
}
