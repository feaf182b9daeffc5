// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

func TestTiers(t *testing.T) {
	tiers := kit.Must(policyfile.Tiers("tiers.json", []byte(`{"tiers": {
		"free": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
			{"name": "day", "quota": 200, "window": "24h"}]},
		"pro": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 10, "window": "1s", "burst": 30},
			{"name": "day", "algorithm": "sliding-window", "quota": 5000, "window": "1440m"}]}}}`)))(t)
	require.Equal(t, map[string][]middleware.Limit{
		"free": {
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 2, Window: time.Second, Burst: 5},
			{Name: "day", Quota: 200, Window: 24 * time.Hour},
		},
		"pro": {
			{Name: "burst", Algorithm: middleware.TokenBucket, Quota: 10, Window: time.Second, Burst: 30},
			{Name: "day", Quota: 5000, Window: 24 * time.Hour},
		},
	}, tiers)
	kit.Must(middleware.New(middleware.Config{
		Policy: "api", Limits: tiers["free"], Tiers: tiers, Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
	}))(t)
}

// TestTiersErrors says for each mistake the file, the line, the path and what is allowed.
func TestTiersErrors(t *testing.T) {
	limit := func(text string) string { return `{"tiers": {"a": {"limits": [` + text + `]}}}` }
	const window = `must be a duration such as "1s", "15m" or "24h"`
	for text, want := range map[string]string{
		``:                                    "t.json:1: ends too early",
		"\n{\"tiers\": {":                     "t.json:2: ends too early",
		"{\n\n\"tiers\": 7}":                  "t.json:3: tiers: must be an object, not a number",
		"{\n\"tears\": {}}":                   `t.json:2: tears: is none of tiers`,
		`{"tiers": {}}`:                       "t.json:1: tiers: must have at least 1, not 0",
		`{}`:                                  "t.json:1: tiers: is required",
		`null`:                                "t.json:1: must be an object, not null",
		"{\"tiers\": {\"\xff\": {}}}":         "t.json:1: must be UTF-8",
		`{"tiers": {"a": {"limits": []}}}`:    "t.json:1: tiers.a.limits: must have at least 1, not 0",
		limit(`{"quota": 0, "window": "1s"}`): "t.json:1: tiers.a.limits[0].quota: must be at least 1, not 0",
		`{"Tiers": {}}`:                       "t.json:1: Tiers: is none of tiers",
		`{"tiers": {"a": {"limits": []}, "a": {}}}`:   "t.json:1: tiers.a: is there twice",
		limit("{\"quota\": 1,\n\"quota\": 2}"):        "t.json:2: tiers.a.limits[0].quota: is there twice",
		limit(`{"quota": 1, "window": "1s"}`) + "\n}": "t.json:2: ",
		limit(`{"quota": 1, "window": 60}`):           "t.json:1: tiers.a.limits[0].window: " + window + ", not a number",
		`7`:                                           "t.json:1: must be an object, not a number",
		`{"tiers": {"a": 7}}`:                         "t.json:1: tiers.a: must be an object, not a number",
		`{"tiers": {"a": {"limits": {"x": 1}}}}`:      "t.json:1: tiers.a.limits: must be a list, not an object",
		`{"tiers": {"a": {"limits": 7}}}`:             "t.json:1: tiers.a.limits: must be a list, not a number",
		`{"tiers": {"a": {"burst": 1, "limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json:1: tiers.a.burst: is none of limits",
		`{"quota": 7, "tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json:1: quota: is none of tiers",
		limit(`{"quota": 1, "window": "1s", "limits": []}`):                        "t.json:1: tiers.a.limits[0].limits: is none of name, algorithm, quota, window, calendar, zone, burst, shadow",
		strings.Repeat("[", 1_000_000):                                             "t.json:1: too many levels",
		limit(`{"quota": {"a": {"b": 1}}}`):                                        "t.json:1: tiers.a.limits[0].quota: must be a whole number, not an object",
		limit(`{"quota": 1}`):                                                      "t.json:1: tiers.a.limits[0].window: is required, or a calendar",
		limit(`{"quota": 1, "window": "a day"}`):                                   "t.json:1: tiers.a.limits[0].window: " + window,
		limit(`{"quota": 1, "window": ""}`):                                        "t.json:1: tiers.a.limits[0].window: " + window,
		limit(`{"quota": 1, "window": "1ms"}`):                                     "t.json:1: tiers.a.limits[0].window: must be whole seconds",
		limit(`{"quota": 1.5, "window": "1s"}`):                                    "t.json:1: tiers.a.limits[0].quota: must be a whole number of at most 18 digits, not 1.5",
		limit(`{"quota": 1e999999999, "window": "1s"}`):                            "t.json:1: tiers.a.limits[0].quota: must be a whole number of at most 18 digits, not 1e999999999",
		limit(`{"quota": 1, "window": "1s"}`) + `{}`:                               "t.json:1: there is more after the end",
		limit(`{"quota": 1, "window": "1s"}`) + `x`:                                "t.json:1: there is more after the end",
		limit(`{"quota": 1, "window": "1s", "algorithm": "magic"}`):                "t.json:1: tiers.a.limits[0].algorithm: must be sliding-window, fixed-window, token-bucket, leaky-bucket, sliding-log or rolling-day",
		limit(`{"quota": 1, "window": "1s", "burst": 4}`):                          "t.json:1: tiers.a.limits[0].burst: belongs to a \"token-bucket\"",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 1, "window": "2s"}]}}}`: "t.json:1: tiers.b.limits: must have the names, algorithms and windows of tiers.a",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 0, "window": "1s"}]}}}`: "t.json:1: tiers.b.limits[0].quota",
		`{"tiers": {"": {"limits": [{"quota": 1, "window": "1s"}]}}}`:                                                   `t.json:1: tiers[""]: must be the name of a tier`,
		limit(`{"name": "x", "quota": 1, "window": "1s"}, {"name": "x", "quota": 1, "window": "2s"}`):                   `t.json:1: tiers.a.limits[1].name: "x" is taken by another limit`,
		limit(`{"quota": 1, "window": "1s", "algorithm": "token-bucket", "burst": -1}`):                                 "t.json:1: tiers.a.limits[0].burst: must be at least 1, not -1",
	} {
		tiers, err := policyfile.Tiers("t.json", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, tiers)
		var problem *storeless.ConfigError
		require.ErrorAs(t, err, &problem)
	}
}

// TestTiersReportsAll: an operator should not have to start a program six times.
func TestTiersReportsAll(t *testing.T) {
	_, err := policyfile.Tiers("t.json", []byte(`{"tears": {}, "tiers": {
		"a": {"limits": [{"quota": -200, "window": "1d"}]},
		"b": {"limits": [{"quota": 1, "window": "1ms"}, {"quota": 1, "window": "1s", "burst": 5}]},
		"c": {"limits": [7, {"quota": "1"}]}}}`))
	var fields []string
	for problem := range storeless.ConfigErrors(err) {
		fields = append(fields, problem.Field)
	}
	require.Equal(t, []string{
		"t.json:1: tears", "t.json:2: tiers.a.limits[0].quota", "t.json:2: tiers.a.limits[0].window",
		"t.json:3: tiers.b.limits[0].window", "t.json:3: tiers.b.limits[1].burst",
		"t.json:4: tiers.c.limits[0]", "t.json:4: tiers.c.limits[1].window", "t.json:4: tiers.c.limits[1].quota",
	}, fields)
	var validators validator.FieldError
	require.NotErrorAs(t, err, &validators)
	require.NotContains(t, err.Error(), "failed on the", "the words are ours")
}
