// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// docs/checks.md prints each line as it is written, under the line's own code, and has no other of this package. What
// each line has beside its code is in the tests of what it tells.
func TestAlarmsAreOnThePage(t *testing.T) {
	page := kit.Must(os.ReadFile("../../docs/checks.md"))(t)
	const member = "10.0.0.8:9000"
	list := []string{"10.0.0.7:9000", member}
	all := map[*alarm][]any{
		&membersAlarm:   {"", "members", 2, "came", list[1:], "went", []string{"10.0.0.9:9000"}},
		&listAwayAlarm:  {"", "error", errors.New("lookup my-app.internal: no such host")},
		&listsAlarm:     {member, "ours", list},
		&unlistedAlarm:  {"", "list", list},
		&lateAlarm:      {member},
		&sameAlarm:      {member},
		&goneAlarm:      {member, "error", errors.New("dial tcp 10.0.0.8:9000: connect: connection refused")},
		&backAlarm:      {member, "because", answers},
		&aloneAlarm:     {""},
		&strangerAlarm:  {"", "from", "10.0.0.8", "error", errStranger},
		&secretsAlarm:   {member},
		&versionAlarm:   {member, "error", versionError{2}},
		&clockAlarm:     {member, "ahead", 7 * time.Second},
		&malformedAlarm: {member, "error", errForged},
		&fullAlarm:      {"", "evicted", 1200},
		&manyAlarm:      {member},
		&deafAlarm:      {"", "error", errors.New("accept tcp 10.0.0.7:9000: use of closed network connection")},
	}
	for a, args := range all {
		var log bytes.Buffer
		g := Group{alarms: alarms{log: slog.New(slog.NewTextHandler(&log, nil)), rang: map[about]ringing{}}}
		g.mu.Lock()
		g.ring(*a, args[0].(string), args[1:]...)
		g.unlock()
		line := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(log.String(), "")
		require.Contains(t, string(page), "\n### "+a.code+"\n\n```text\n"+line+"```\n")
	}
	require.Len(t, regexp.MustCompile(`(?m)^### peers-`).FindAll(page, -1), len(all))
	source := kit.Must(os.ReadFile("alarms.go"))(t)
	require.Len(t, regexp.MustCompile(`= alarm\{slog\.`).FindAll(source, -1), len(all))
}

// A line about a member comes once a minute, whatever is said of others, and its end is told if it was.
func TestAlarmsAreRare(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		log := new(text)
		a := alarms{log: slog.New(slog.NewTextHandler(log, nil)), rang: map[about]ringing{}}
		lines := func() int { return len(a.later) }
		for range 3 {
			a.ring(lateAlarm, "a:1")
			a.ring(lateAlarm, "b:1")
		}
		require.Equal(t, 2, lines())
		a.over("a:1", answers)
		require.Equal(t, 3, lines())
		a.ring(lateAlarm, "a:1")
		a.over("a:1", answers)
		require.Equal(t, 3, lines(), "it has not been told")
		time.Sleep(time.Minute - 1)
		a.ring(lateAlarm, "a:1")
		require.Equal(t, 3, lines())
		time.Sleep(time.Nanosecond)
		a.ring(lateAlarm, "a:1")
		require.Equal(t, 4, lines())
		a.over("a:1", answers)
		for range 2 {
			a.ring(goneAlarm, "a:1")
			a.over("a:1", answers)
		}
		require.Equal(t, 9, lines())
		for _, member := range addresses(10_000) {
			a.ring(lateAlarm, member)
		}
		require.LessOrEqual(t, len(a.rang), 4*maxMembers+1)
	})
}
