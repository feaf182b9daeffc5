// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// A reading is what the packages of npm make of a response.
type reading struct {
	Parsed *struct { // by ratelimit-header-parser; a NaN is null
		Limit, Used, Remaining, Reset *int64
	}
	Structured map[string]any // by structured-headers
}

// readInNode has the packages of npm read the fields of each response.
func readInNode(t *testing.T, now time.Time, responses []map[string]string) []reading {
	t.Helper()
	if _, err := os.Stat("testdata/parsers/node_modules/ratelimit-header-parser"); err != nil {
		kit.Unable(t, "there is no ratelimit-header-parser (.ci/need installs it, by npm)")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		kit.Unable(t, "there is no node (Debian: apt-get install nodejs)")
	}
	asked, err := json.Marshal(map[string]any{"now": now.UnixMilli(), "responses": responses})
	require.NoError(t, err)
	cmd := exec.Command(node, "testdata/parsers/parse.mjs")
	var complaint strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), &complaint
	said, err := cmd.Output()
	require.NoError(t, err, complaint.String())
	var read []reading
	require.NoError(t, json.Unmarshal(said, &read))
	require.Len(t, read, len(responses))
	return read
}

// What clients in JavaScript know understands us: ratelimit-header-parser reads every choice but RateLimitFields,
// which came after it and which it takes for an older draft; structured-headers reads all.
func TestNpmReadsEveryChoice(t *testing.T) {
	now := new(clock)
	now.Advance(10 * time.Second)
	var responses []map[string]string
	for _, c := range choices() {
		cfg := twoSpeeds(c.fields)
		cfg.Now = now.Now
		h := newSite(t, cfg)
		responses = append(responses, ofLimits(send(h).Header))
		require.Equal(t, 1, admitted(h, 1))
		responses = append(responses, ofLimits(send(h).Header))
	}
	read := readInNode(t, now.Now(), responses)
	for i, c := range choices() {
		for refused, got := range read[2*i : 2*i+2] {
			t.Run(c.name+[]string{", allowed", ", refused"}[refused], func(t *testing.T) {
				if c.fields == 0 || c.fields&middleware.RateLimitFields != 0 {
					require.NotNil(t, got.Parsed)
					require.Nil(t, got.Parsed.Limit, "the parser is from before these fields")
					require.Nil(t, got.Parsed.Remaining)
				} else {
					require.EqualValues(t, 2, *got.Parsed.Limit)
					require.EqualValues(t, 1+refused, *got.Parsed.Used)
					require.EqualValues(t, 1-refused, *got.Parsed.Remaining)
					require.EqualValues(t, 50, *got.Parsed.Reset)
				}
				require.Len(t, got.Structured, len(responses[2*i+refused]), "every field parses")
				left, sum := float64(1-refused), got.Structured
				for name, want := range map[string]any{
					"x-ratelimit-limit": 2.0, "x-ratelimit-remaining": left,
				} {
					if sum[name] != nil {
						require.Equal(t, want, sum[name], name)
					}
				}
				item := func(name any, params map[string]any) []any { return []any{name, params} }
				minute, day := map[string]any{"r": left, "t": 50.0}, map[string]any{"r": 3 + left}
				if refused == 0 {
					day["t"] = 86390.0
				}
				if c.fields == 0 || c.fields&middleware.RateLimitFields != 0 {
					require.Equal(t, []any{item("minute", minute), item("day", day)}, sum["ratelimit"])
					require.Equal(t, []any{
						item("minute", map[string]any{"q": 2.0, "w": 60.0}), item("day", map[string]any{"q": 5.0, "w": 86400.0}),
					}, sum["ratelimit-policy"])
				} else {
					require.NotContains(t, sum, "ratelimit")
				}
			})
		}
	}
}
