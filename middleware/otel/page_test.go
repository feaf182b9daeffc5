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

// The page names every metric that there is, with its unit, and no other.
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
	require.Len(t, alerts, 16)
	require.Equal(t, alerts, sections)
	require.Equal(t, strings.ToLower(strings.Join(alerts, " ")), strings.Join(runbooks, " "))
}
