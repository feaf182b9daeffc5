// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

// problems takes the error of New apart: every part must be a storeless.ConfigError.
func problems(t testing.TB, err error) (fields []string) {
	t.Helper()
	var lines []string
	for problem := range storeless.ConfigErrors(err) {
		require.NotEmpty(t, problem.Problem)
		require.Equal(t, problem.Field+": "+problem.Problem, problem.Error())
		fields, lines = append(fields, problem.Field), append(lines, problem.Error())
	}
	// Nothing else is in the error, but for the policy that it is about.
	text := strings.Join(lines, "\n")
	if got, ok := strings.CutSuffix(err.Error(), text); !ok || got != "" {
		require.Regexp(t, `^policy ".*":[ \n]$`, got)
	}
	return fields
}

// wordy returns limits whose tokens are short or too long, as the quota is.
func wordy(quota int64) (all []middleware.Limit) {
	for i := range 8 {
		all = append(all, fixed(quota, time.Duration(i+1)*time.Minute))
	}
	return all
}

func TestBadConfigurations(t *testing.T) {
	short := secret("a")[:31]
	tooMany := make([][]byte, 9)
	for i := range tooMany {
		tooMany[i] = secret(string(rune('a' + i)))
	}
	type config = middleware.Config
	for _, test := range []struct {
		field string
		spoil func(*config)
		says  string
	}{
		{"Policy", func(c *config) { c.Policy = "" }, "1 to 32"},
		{"Policy", func(c *config) { c.Policy = "Contact" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = "con tact" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = "con;tact\r\n" }, "a-z"},
		{"Policy", func(c *config) { c.Policy = strings.Repeat("a", 33) }, "1 to 32"},
		{"Limits", func(c *config) { c.Limits = nil }, "at least one"},
		{"Limits", func(c *config) {
			c.Limits = nil
			for i := range 9 {
				c.Limits = append(c.Limits, fixed(5, time.Duration(i+1)*time.Second))
			}
		}, "at most 8"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = 0 }, "from 1"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = -1 }, "from 1"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = math.MaxInt32 + 1 }, "2147483647"},
		{"Limits[0].Quota", func(c *config) { c.Limits[0].Quota = math.MaxInt64 }, "2147483647"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = 0 }, "from 1s"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = -time.Minute }, "from 1s"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = time.Millisecond }, "whole seconds"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = 1500 * time.Millisecond }, "whole seconds"},
		{"Limits[0].Window", func(c *config) { c.Limits[0].Window = math.MaxInt64 }, "8784h"},
		{"Limits[0].Algorithm", func(c *config) { c.Limits[0].Algorithm = 200 }, "SlidingWindow"},
		{"Limits[0].Burst", func(c *config) { c.Limits[0].Burst = 3 }, "TokenBucket"},
		{"Limits[0].Name", func(c *config) { c.Limits[0].Name = "No!" }, "a-z"},
		{"Limits[1].Name", func(c *config) { c.Limits = append(c.Limits, c.Limits[0], c.Limits[0])[1:] }, ""},
		{"Limits[1].Name", func(c *config) {
			c.Limits = []middleware.Limit{fixed(5, time.Minute), fixed(5, time.Hour)}
			c.Limits[0].Name, c.Limits[1].Name = "same", "same"
		}, "taken"},
		{"Secrets", func(c *config) { c.Secrets = nil }, "at least one"},
		{"Secrets", func(c *config) { c.Secrets = tooMany }, "at most 8"},
		{"Secrets[0]", func(c *config) { c.Secrets = [][]byte{{}} }, "32"},
		{"Secrets[1]", func(c *config) { c.Secrets = append(c.Secrets, short) }, "31"},
		{"Secrets[1]", func(c *config) { c.Secrets = append(c.Secrets, c.Secrets[0]) }, "same"},
		{"Secrets[0]", func(c *config) { c.Secrets = [][]byte{make([]byte, 32)} }, "zeros"},
		{`Tiers[""]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"": c.Limits} }, "name"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": nil} }, "at least one"},
		{`Tiers["pro"][0].Quota`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {fixed(0, time.Minute)}} }, "from 1"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Hour)}} }, "windows"},
		{`Tiers["pro"]`, func(c *config) { c.Tiers = map[string][]middleware.Limit{"pro": {{Quota: 9, Window: time.Minute}}} }, "algorithms"},
		{`Tiers["pro"]`, func(c *config) {
			c.Tiers = map[string][]middleware.Limit{"pro": {fixed(9, time.Minute), fixed(90, time.Hour)}}
		}, "Limits"},
		{"Limits", func(c *config) { c.Limits = wordy(math.MaxInt32) }, "512 at most"},
		{"Limits", func(c *config) {
			c.Limits, c.Tiers = wordy(9), map[string][]middleware.Limit{"pro": wordy(math.MaxInt32)}
		}, "512 at most"},
		{"TokenTransport", func(c *config) { c.TokenTransport = 4 }, "HeaderOrCookie"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.InsecureNoMemory = middleware.MemoryOnly, true }, "nothing would count"},
		{"Fields", func(c *config) { c.Fields = 1 << 7 }, "constants of Fields"},
		{"EmbeddedCookie", func(c *config) { c.EmbeddedCookie, c.InsecureCookie = true, true }, "Partitioned"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.EmbeddedCookie = middleware.HeaderOnly, true }, "no cookie"},
		{"TokenTransport", func(c *config) { c.TokenTransport, c.InsecureCookie = middleware.HeaderOnly, true }, "no cookie"},
		{"MaxClients", func(c *config) { c.MaxClients = -1 }, "16777216"},
		{"MaxClients", func(c *config) { c.MaxClients = 1<<24 + 1 }, "16777216"},
		{"Instances", func(c *config) { c.Instances = -1 }, "from 1 to 1048576"},
		{"Instances", func(c *config) { c.Instances = 1<<20 + 1 }, "from 1 to 1048576"},
		{"Net56Factor", func(c *config) { c.Net56Factor = -1 }, "from 1"},
		{"Net48Factor", func(c *config) { c.Net48Factor = -1 }, "from Net56Factor"},
		{"Net48Factor", func(c *config) { c.Net48Factor = 7 }, "from Net56Factor"},
	} {
		t.Run(test.field+" "+test.says, func(t *testing.T) {
			cfg := contact(new(clock))
			test.spoil(&cfg)
			if test.says == "" { // two unnamed limits of one window are two limits of one name
				cfg.Limits = []middleware.Limit{fixed(5, time.Minute), fixed(6, time.Minute), fixed(7, time.Minute)}
				test.field, test.says = "Limits[2].Name", "taken"
			}
			m, err := middleware.New(cfg)
			require.Nil(t, m)
			require.Equal(t, []string{test.field}, problems(t, err), "%v", err)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// everythingWrong is a configuration with a mistake in each field that can have one, and where New must find them.
func everythingWrong() (cfg middleware.Config, fields []string) {
	return middleware.Config{
			Policy: "Contact!",
			Limits: []middleware.Limit{
				{Quota: -1, Window: time.Nanosecond, Algorithm: 9, Burst: 2, Name: "No"},
				{Quota: 5, Window: time.Minute},
			},
			Secrets:        [][]byte{secret("a"), secret("a"), secret("b")[:8], {}, make([]byte, 40)},
			Tiers:          map[string][]middleware.Limit{"": {}, "pro": {{Quota: 0, Window: time.Hour}}},
			TokenTransport: 17,
			MaxClients:     -7, Instances: -4, Fields: 1 << 7,
			Advanced: middleware.Advanced{EmbeddedCookie: true, InsecureCookie: true, Net56Factor: -1, Net48Factor: -2},
		}, []string{
			"Policy",
			"Limits[0].Name", "Limits[0].Algorithm", "Limits[0].Quota", "Limits[0].Window", "Limits[0].Burst",
			`Tiers[""]`, `Tiers[""]`, `Tiers["pro"][0].Quota`,
			"TokenTransport", "Fields", "MaxClients", "Instances", "Net56Factor", "Net48Factor", "EmbeddedCookie",
			"Secrets[1]", "Secrets[2]", "Secrets[3]", "Secrets[4]",
		}
}

func TestAllProblemsAtOnce(t *testing.T) {
	cfg, want := everythingWrong()
	m, err := middleware.New(cfg)
	require.Nil(t, m)
	got := problems(t, err)
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
	require.Len(t, strings.Split(err.Error(), "\n"), 1+len(want), "a line each, after the policy's name")
	for field := range reflect.TypeFor[middleware.Config]().Fields() {
		if kind := field.Type.Kind(); reflect.Int <= kind && kind <= reflect.Uint64 {
			require.Contains(t, want, field.Name, "a number has bounds: give everythingWrong one that New refuses")
		}
	}

	var problem *storeless.ConfigError
	require.ErrorAs(t, err, &problem)
}

func TestZeroConfig(t *testing.T) {
	_, err := middleware.New(middleware.Config{})
	require.Equal(t, []string{"Policy", "Limits", "Secrets"}, problems(t, err))
}

func TestLeastConfig(t *testing.T) {
	m, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
		Secrets: [][]byte{secret("a")},
	})
	require.NoError(t, err)
	resp := requireStatus(t, http.StatusOK, send(m.Handler(new(spy))))
	require.Equal(t, `"contact";q=5;w=60, "contact-24h";q=50;w=86400`, resp.Header.Get("RateLimit-Policy"))
}

// A /48 is never given less than a /56 of it.
func TestDefaultOfNet48(t *testing.T) {
	cfg := contact(new(clock))
	cfg.Net56Factor = 100
	require.NoError(t, func() error { _, err := middleware.New(cfg); return err }())
}

// A user may embed these in a struct that goes through a validation library, which must find no tags of ours in it.
func TestConfigHasNoTags(t *testing.T) {
	for _, of := range []any{middleware.Config{}, middleware.Challenge{}, middleware.Exact{}, middleware.Limit{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			require.Empty(t, field.Tag, "%T.%s", of, field.Name)
		}
	}
}
