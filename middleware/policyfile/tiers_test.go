package policyfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-playground/validator/v10"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/policyfile"
)

func TestTiers(t *testing.T) {
	tiers, err := policyfile.Tiers("tiers.json", []byte(`{"tiers": {
		"free": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 2, "window": "1s", "burst": 5},
			{"name": "day", "quota": 200, "window": "24h"}]},
		"pro": {"limits": [
			{"name": "burst", "algorithm": "token-bucket", "quota": 10, "window": "1s", "burst": 30},
			{"name": "day", "algorithm": "sliding-window", "quota": 5000, "window": "1440m"}]}}}`))
	require.NoError(t, err)
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
	_, err = middleware.New(middleware.Config{
		Policy: "api", Limits: tiers["free"], Tiers: tiers, Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
	})
	require.NoError(t, err)
}

// TestTiersErrors says for each mistake the file, the path and what is allowed.
func TestTiersErrors(t *testing.T) {
	limit := func(text string) string { return `{"tiers": {"a": {"limits": [` + text + `]}}}` }
	for text, want := range map[string]string{
		``:                                    "t.json: ends too early",
		`{"tiers": {`:                         "t.json: ends too early",
		"{\n\n\"tiers\": 7}":                  "t.json: line 3: what is in tiers must be an object, not a JSON number",
		"{\n\"tears\": {}}":                   `t.json: tears: is none of tiers`,
		`{"tiers": {}}`:                       "t.json: tiers: must hold at least one tier",
		`{}`:                                  "t.json: tiers: must hold at least one tier",
		`{"tiers": {"a": {"limits": []}}}`:    "t.json: tiers[a].limits: must hold 1 to 8 limits",
		limit(`{"quota": 0, "window": "1s"}`): "t.json: tiers[a].limits[0].quota: must be from 1 to 2147483647, not 0",
		`{"Tiers": {}}`:                       "t.json: Tiers: is none of tiers",
		`{"tiers": {"a": {"limits": []}, "a": {}}}`: "t.json: tiers[a]: is there twice",
		limit(`{"quota": 1, "quota": 2}`):           "t.json: tiers[a].limits[0].quota: is there twice",
		limit(`{"quota": 1, "window": "1s"}`) + `}`: "t.json: line 1:",
		limit(`{"quota": 1, "window": 60}`):         `t.json: line 1: window must be a duration such as "1s", "15m" or "24h", not a JSON number`,
		`7`:                                         "t.json: line 1: the file must be an object, not a JSON number",
		`{"tiers": {"a": 7}}`:                       "t.json: line 1: what is in tiers must be an object, not a JSON number",
		`{"tiers": {"a": {"limits": {"x": 1}}}}`:    "t.json: line 1: limits must be a list, not a JSON object",
		`{"tiers": {"a": {"limits": 7}}}`:           "t.json: line 1: limits must be a list, not a JSON number",
		`{"tiers": {"a": {"burst": 1, "limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json: tiers[a].burst: is none of limits",
		`{"quota": 7, "tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}}}`: "t.json: quota: is none of tiers",
		limit(`{"quota": 1, "window": "1s", "limits": []}`):                        "t.json: tiers[a].limits[0].limits: is none of name, algorithm, quota, window, burst",
		strings.Repeat("[", 1_000_000):                                             "t.json: line 1: too many levels",
		limit(`{"quota": {"a": {"b": 1}}}`):                                        "t.json: line 1: quota must be from 1 to 2147483647, not a JSON object",
		limit(`{"quota": 1}`):                                                      "t.json: tiers[a].limits[0].window: must be a duration such as",
		limit(`{"quota": 1, "window": "a day"}`):                                   "t.json: tiers[a].limits[0].window: must be a duration such as",
		limit(`{"quota": 1, "window": "1ms"}`):                                     "t.json: tiers[a].limits[0].window: must be whole seconds",
		limit(`{"quota": 1.5, "window": "1s"}`):                                    "t.json: line 1: quota must be from 1 to 2147483647, not a JSON number 1.5",
		limit(`{"quota": 1, "window": "1s"}`) + `{}`:                               "t.json: line 1: there is more after the end",
		limit(`{"quota": 1, "window": "1s"}`) + `x`:                                "t.json: line 1: there is more after the end",
		limit(`{"quota": 1, "window": "1s", "algorithm": "magic"}`):                "t.json: tiers[a].limits[0].algorithm: must be sliding-window, fixed-window, token-bucket or leaky-bucket, or with an exact counter sliding-log or rolling-day",
		limit(`{"quota": 1, "window": "1s", "burst": 4}`):                          "t.json: tiers[a].limits[0].burst: belongs to a TokenBucket",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 1, "window": "2s"}]}}}`: "t.json: tiers[b].limits: must have the names, algorithms and windows of tiers[a]",
		`{"tiers": {"a": {"limits": [{"quota": 0, "window": "1s"}]}, "b": {"limits": [{"quota": 0, "window": "1s"}]}}}`: "t.json: tiers[b].limits[0].quota",
		`{"tiers": {"": {"limits": [{"quota": 1, "window": "1s"}]}}}`:                                                   "t.json: tiers[]: a tier needs a name",
		limit(`{"name": "x", "quota": 1, "window": "1s"}, {"name": "x", "quota": 1, "window": "2s"}`):                   `"x" is taken by another limit`,
		limit(`{"quota": 1, "window": "1s", "algorithm": "token-bucket", "burst": -1}`):                                 "t.json: tiers[a].limits[0].burst: must be from 1",
	} {
		tiers, err := policyfile.Tiers("t.json", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, tiers)
		var problem *middleware.ConfigError
		require.ErrorAs(t, err, &problem)
	}
}

// TestTiersReportsAll: nobody should have to start a program six times.
func TestTiersReportsAll(t *testing.T) {
	_, err := policyfile.Tiers("t.json", []byte(`{"tears": {}, "tiers": {
		"a": {"limits": [{"quota": -200, "window": "1d"}]},
		"b": {"limits": [{"quota": 1, "window": "1ms"}, {"quota": 1, "window": "1s", "burst": 5}]}}}`))
	var fields []string
	for problem := range middleware.ConfigErrors(err) {
		fields = append(fields, problem.Field)
	}
	require.Equal(t, []string{
		"t.json: tears", "t.json: tiers[a].limits[0].quota", "t.json: tiers[a].limits[0].window",
		"t.json: tiers[b].limits[0].window", "t.json: tiers[b].limits[1].burst",
	}, fields)
	var validators validator.FieldError
	require.NotErrorAs(t, err, &validators)
	require.NotContains(t, err.Error(), "failed on the", "the words are ours")
}
