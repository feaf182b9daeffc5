// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// What a Prometheus reads: decisions by policy, route and reason, of all instances, and the
// state of each; and nothing that tells of a client.
func TestMetrics(t *testing.T) {
	s := start(t, 2)
	c := s.client(t)
	for range 4 {
		require.Equal(t, http.StatusOK, c.newsletter().StatusCode)
	}
	a := c.do("GET", metricsPath, "")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Empty(t, a.Header.Get("Demo-Instance"), "it is no instance's")
	admitted := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^tallystick_decisions_total\{demo_instance="(\d)",http_route="/newsletter",tallystick_authenticated="false",tallystick_outcome="admitted",tallystick_policy="newsletter",tallystick_reason="within-limits"\} (\d+)$`).FindAllStringSubmatch(a.body, -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		admitted[m[1]] = n
	}
	require.Equal(t, map[string]int{"1": 2, "2": 2}, admitted, a.body)
	for _, policy := range []string{"contact", "newsletter", "signup", "feedback", "api"} {
		require.Contains(t, a.body, `tallystick_memory_utilization_ratio{demo_instance="2",tallystick_policy="`+policy+`"} 0`)
	}
	require.Contains(t, a.body, `tallystick_exact_down{demo_instance="1",tallystick_policy="api"} 0`)
	require.NotContains(t, a.body, "127.0.0.1")

	if _, err := exec.LookPath("promtool"); err != nil {
		kit.Unable(t, "there is no promtool: %v", err)
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(a.body)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
