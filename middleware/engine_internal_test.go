// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/storeless"
)

// A debugger's %+v of what New has compiled follows no pointer to a key.
func TestEnginePrintsNoSecret(t *testing.T) {
	secret := sha256.Sum256([]byte("a"))
	e, err := compile(Config{
		Policy:  "contact",
		Limits:  []Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{secret[:]},
	}, newHome())
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		for _, v := range []any{e, e.base, e.codec, *e.codec} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, fmt.Sprintf("%x", secret[:4]))
			require.NotContains(t, text, strings.Trim(fmt.Sprint(secret[:4]), "[]"))
			require.NotContains(t, text, string(secret[:4]))
		}
	}
}

// Each rule refuses the first value behind its bound, and not the last before it. Here,
// because New would make the memory that a permitted number of tallies wants.
func TestBoundsOfConfig(t *testing.T) {
	for name, test := range map[string]struct {
		set    func(*Config)
		broken []string
	}{
		"nothing set":                {func(*Config) {}, nil},
		"the last carriage":          {func(c *Config) { c.TokenTransport = MemoryOnly }, nil},
		"one more carriage":          {func(c *Config) { c.TokenTransport = MemoryOnly + 1 }, []string{"TokenTransport"}},
		"the last of Fields":         {func(c *Config) { c.Fields = XRateLimitInUnixTime }, nil},
		"one more of Fields":         {func(c *Config) { c.Fields = XRateLimitInUnixTime << 1 }, []string{"Fields"}},
		"one tally":                  {func(c *Config) { c.MaxClients = 1 }, nil},
		"fewer than none":            {func(c *Config) { c.MaxClients = -1 }, []string{"MaxClients"}},
		"most tallies":               {func(c *Config) { c.MaxClients = 1 << 24 }, nil},
		"one tally more":             {func(c *Config) { c.MaxClients = 1<<24 + 1 }, []string{"MaxClients"}},
		"smallest networks":          {func(c *Config) { c.Net56Factor, c.Net48Factor = 1, 1 }, nil},
		"a negative /56":             {func(c *Config) { c.Net56Factor = -1 }, []string{"Net56Factor"}},
		"a negative /48":             {func(c *Config) { c.Net56Factor, c.Net48Factor = 1, -1 }, []string{"Net48Factor"}},
		"both negative, in order":    {func(c *Config) { c.Net56Factor, c.Net48Factor = -2, -1 }, []string{"Net56Factor", "Net48Factor"}},
		"largest networks":           {func(c *Config) { c.Net56Factor, c.Net48Factor = 1<<31-1, 1<<31-1 }, nil},
		"a /56 too large":            {func(c *Config) { c.Net56Factor = 1 << 31 }, []string{"Net56Factor", "Net48Factor"}},
		"a /48 too large":            {func(c *Config) { c.Net48Factor = 1 << 31 }, []string{"Net48Factor"}},
		"a /48 as its /56":           {func(c *Config) { c.Net56Factor, c.Net48Factor = 100, 100 }, nil},
		"a /48 smaller than its /56": {func(c *Config) { c.Net56Factor, c.Net48Factor = 100, 99 }, []string{"Net48Factor"}},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			test.set(&cfg)
			cfg = withDefaults(cfg)
			var broken []string
			for problem := range storeless.ConfigErrors(validate(&cfg)) {
				broken = append(broken, problem.Field)
			}
			require.Equal(t, test.broken, broken)
		})
	}
}

// A refusal's wait is never nothing, which clients take for "at once".
func TestJitteredIsAtLeastASecond(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, time.Millisecond, time.Second} {
		require.Equal(t, time.Second, jittered(wait))
	}
}
