package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

func TestParseTiers(t *testing.T) {
	tiers, err := middleware.ParseTiers("tiers.json", []byte(`{"tiers": {
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
	cfg := contact(new(clock))
	cfg.Limits, cfg.Tiers = tiers["free"], tiers
	_, err = middleware.New(cfg)
	require.NoError(t, err)
}

// TestParseTiersErrors says for each mistake the file, the path and what is allowed.
func TestParseTiersErrors(t *testing.T) {
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
		limit(`{"quota": 1, "window": "1s"}`) + `x`:                                "t.json: line 1: there is more after the end",
		limit(`{"quota": 1, "window": "1s", "algorithm": "magic"}`):                "t.json: tiers[a].limits[0].algorithm: must be sliding-window, fixed-window, token-bucket or leaky-bucket, or with an exact counter sliding-log or rolling-day",
		limit(`{"quota": 1, "window": "1s", "burst": 4}`):                          "t.json: tiers[a].limits[0].burst: belongs to a TokenBucket",
		`{"tiers": {"a": {"limits": [{"quota": 1, "window": "1s"}]}, "b": {"limits": [{"quota": 1, "window": "2s"}]}}}`: "t.json: tiers[b].limits: must have the names, algorithms and windows of tiers[a]",
		`{"tiers": {"a": {"limits": [{"quota": 0, "window": "1s"}]}, "b": {"limits": [{"quota": 0, "window": "1s"}]}}}`: "t.json: tiers[b].limits[0].quota",
		`{"tiers": {"": {"limits": [{"quota": 1, "window": "1s"}]}}}`:                                                   "t.json: tiers[]: a tier needs a name",
		limit(`{"name": "x", "quota": 1, "window": "1s"}, {"name": "x", "quota": 1, "window": "2s"}`):                   `"x" is taken by another limit`,
		limit(`{"quota": 1, "window": "1s", "algorithm": "token-bucket", "burst": -1}`):                                 "t.json: tiers[a].limits[0].burst: must be from 1",
	} {
		tiers, err := middleware.ParseTiers("t.json", []byte(text))
		require.ErrorContains(t, err, want, text)
		require.Nil(t, tiers)
		var problem *middleware.ConfigError
		require.ErrorAs(t, err, &problem)
	}
}

// TestParseTiersReportsAll: nobody should have to start his program six times.
func TestParseTiersReportsAll(t *testing.T) {
	_, err := middleware.ParseTiers("t.json", []byte(`{"tears": {}, "tiers": {
		"a": {"limits": [{"quota": -200, "window": "1d"}]},
		"b": {"limits": [{"quota": 1, "window": "1ms"}, {"quota": 1, "window": "1s", "burst": 5}]}}}`))
	require.Equal(t, []string{
		"t.json: tears", "t.json: tiers[a].limits[0].quota", "t.json: tiers[a].limits[0].window",
		"t.json: tiers[b].limits[0].window", "t.json: tiers[b].limits[1].burst",
	}, problems(t, err))
}

func TestServiceCredential(t *testing.T) {
	_, err := middleware.ServiceCredential("", "short")
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "credentials[0]: must have at least 32 characters, not 5")
	require.NotContains(t, err.Error(), "short,")
	require.Equal(t, []string{"field", "credentials[0]"}, problems(t, err))
	again := strings.Repeat("a", 32)
	_, err = middleware.ServiceCredential("bad name:", again, again)
	require.Equal(t, []string{"field", "credentials[1]"}, problems(t, err))
	_, err = middleware.ServiceCredential("Internal")
	require.ErrorContains(t, err, "at least one")

	const old, fresh = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	skip, err := middleware.ServiceCredential("Demo-Internal", old, fresh)
	require.NoError(t, err)
	cfg := contact(new(clock))
	cfg.Skip = skip
	h, _ := limited(t, cfg)
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", old)))
	require.Equal(t, 20, admitted(h, 20, with("Demo-Internal", fresh)))
	require.Equal(t, 5, admitted(h, 20, with("Demo-Internal", old+"x")))
	for _, wrong := range [][]string{{"Demo-Internal", ""}, {"Demo-Internal", old[1:]}, {"Demo-Internal", old, "Demo-Internal", old}, {"Internal", old}, nil} {
		require.Equal(t, http.StatusTooManyRequests, send(h, with(wrong...)).StatusCode)
	}
}

// TestIdentityForHasQuotasOfItsOwn narrows customers to products whose names are
// made to look like each other's.
func TestIdentityForHasQuotasOfItsOwn(t *testing.T) {
	identities := []middleware.Identity{
		middleware.APIKey("a"), middleware.APIKey("a").For("b"), middleware.APIKey("a").For("b").For("c"),
		middleware.APIKey("a").For("bc"), middleware.APIKey("ab").For("c"), middleware.APIKey("ab"), middleware.APIKey("a1:b"),
		middleware.APIKey("a").For("b1:c"), middleware.Principal("a").For("b"), middleware.APIKey("a1:b\x00\x00\x00\x02"),
		middleware.APIKey("a1:b").For("c"), middleware.APIKey("a").For("1:b"),
	}
	cfg := contact(new(clock))
	next := 0
	cfg.Identity = func(*http.Request) (middleware.Identity, error) { return identities[next], nil }
	h, _ := limited(t, cfg)
	for next = range identities {
		require.Equal(t, 5, admitted(h, 6), next)
	}
	require.Equal(t, middleware.APIKey("a"), middleware.APIKey("a").For(""))
	require.True(t, middleware.APIKey("").For("b").IsZero())
}
