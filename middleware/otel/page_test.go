// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/tallystick/tallystick/middleware/otel"
)

const page = "../../docs/watching.md"

// The page names every metric that there is, with its unit, and no other; and each is on a panel of the dashboard.
func TestEveryMetricIsOnThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var printed, made []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(tallystick\\.[a-z_.]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		printed = append(printed, row[1]+" "+row[2])
	}
	_, err = otel.New(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()),
		metric.WithView(func(i metric.Instrument) (as metric.Stream, matches bool) {
			made = append(made, i.Name+" "+i.Unit)
			return as, false
		})))
	require.NoError(t, err)
	require.NotEmpty(t, made)
	require.ElementsMatch(t, made, printed)

	board, err := os.ReadFile("dashboard/grafana.json")
	require.NoError(t, err)
	for _, name := range made {
		name, _, _ = strings.Cut(name, " ")
		series := regexp.MustCompile(strings.ReplaceAll(name, ".", "_") + `(_seconds|_ratio)?(_total|_bucket|_count)?[^a-z_]`)
		require.Regexp(t, series, string(board), "no panel of the dashboard shows it")
	}
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
	for _, m := range regexp.MustCompile(`runbook_url: "https://github.com/tallystick/tallystick/blob/main/docs/watching.md#(\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		runbooks = append(runbooks, m[1])
	}
	require.Len(t, alerts, 17)
	require.Equal(t, alerts, sections)
	require.Equal(t, strings.ToLower(strings.Join(alerts, " ")), strings.Join(runbooks, " "))
}
