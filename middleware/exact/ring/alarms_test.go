// SPDX-License-Identifier: Apache-2.0

package ring

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

// docs/checks.md prints each line as it is written, under the line's own code, and has no other of this package.
func TestAlarmsAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/checks.md")
	require.NoError(t, err)
	all := map[string]func(*alarms){
		"ring-deaf":      func(a *alarms) { a.deaf(errors.New("accept tcp 10.0.0.7:9000: use of closed network connection")) },
		"ring-list-away": func(a *alarms) { a.away(errors.New("lookup my-app.internal: no such host")) },
		"ring-lists-differ": func(a *alarms) {
			a.differSince, a.differLast = time.Now().Add(-2*patience), time.Now()
			a.differ("10.0.0.7:9000")
		},
		"ring-members": func(a *alarms) {
			a.members([]string{"10.0.0.7:9000", "10.0.0.9:9000"}, []string{"10.0.0.7:9000", "10.0.0.8:9000"})
		},
		"ring-not-listed": func(a *alarms) { a.listed("10.0.0.7:9000", false) },
	}
	for code, ring := range all {
		var log bytes.Buffer
		a := &alarms{log: slog.New(slog.NewTextHandler(&log, nil))}
		ring(a)
		ring(a)
		line := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(log.String(), "")
		if code == "ring-members" || code == "ring-deaf" {
			line = line[:len(line)/2]
		}
		require.True(t, bytes.Contains(page, []byte("\n### "+code+"\n")), code)
		require.True(t, bytes.Contains(page, []byte("```text\n"+line+"```\n")), "once a minute: %s", line)
	}
	require.Len(t, regexp.MustCompile(`(?m)^### ring-`).FindAll(page, -1), len(all))
	source, err := os.ReadFile("alarms.go")
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`a\.tell\(slog\.\w+, "ring-`).FindAll(source, -1), len(all))
}
