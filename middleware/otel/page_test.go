// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "../../docs/watching.md"

// The page names every metric that there is, with its unit, and no other.
func TestEveryMetricIsOnThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var printed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(tallystick\\.[a-z_.]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		printed = append(printed, row[1]+" "+row[2])
	}
	var made []string
	for _, file := range []string{"instruments.go", "observe.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"(tallystick\.[a-z_.]+)", metric\.WithUnit\("([^"]+)"\)`).FindAllStringSubmatch(string(source), -1) {
			made = append(made, m[1]+" "+m[2])
		}
	}
	require.Len(t, made, 20)
	slices.Sort(made)
	slices.Sort(printed)
	require.Equal(t, made, printed)
}

// Each alert has a section of the page, which its runbook names.
func TestEveryAlertIsOnThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	rules, err := os.ReadFile("dashboard/alerts.yml")
	require.NoError(t, err)
	var sections, alerts, runbooks []string
	for _, m := range regexp.MustCompile(`(?m)^### (Tallystick\w+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, m[1])
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		alerts = append(alerts, m[1])
	}
	for _, m := range regexp.MustCompile(`runbook: "docs/watching.md#(\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		runbooks = append(runbooks, m[1])
	}
	require.Len(t, alerts, 15)
	require.Equal(t, alerts, sections)
	require.Equal(t, strings.ToLower(strings.Join(alerts, " ")), strings.Join(runbooks, " "))
}
