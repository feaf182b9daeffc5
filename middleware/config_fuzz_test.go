// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/storeless"
)

func TestConfigFuzzSeedsAreThere(t *testing.T) {
	files, err := os.ReadDir("testdata/fuzz/FuzzConfig")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
}

// FuzzConfig gives New anything: it refuses by the names of fields, and by the same
// words whatever the secrets are; or makes a limiter that answers
// everything with a status of ours, admits the first request unless a proof is
// wanted, and never admits more than the quota, or this instance's part of it. flags are what is yes or no.
func FuzzConfig(f *testing.F) {
	f.Fuzz(func(t *testing.T, policy, name, tier, path string, key []byte, algorithm uint8, quota, window, burst, tierQuota int64, flags uint16, carriage, quiet, mode uint8, work, crowd, memory, surge, net56, net48 int64, tallies int, instances, perSecond, atOnce int64, ceiling bool) {
		now := new(clock)
		flag := func(n int) bool { return flags>>n&1 == 1 }
		cfg := contact(now)
		cfg.Policy = policy
		cfg.Limits = []middleware.Limit{{Name: name, Algorithm: storeless.Algorithm(algorithm), Quota: quota, Window: time.Duration(window), Burst: burst}}
		if flag(0) {
			larger := cfg.Limits[0]
			larger.Quota = tierQuota
			cfg.Tiers = map[string][]middleware.Limit{tier: {larger}}
		}
		cfg.Secrets = [][]byte{key}
		if flag(1) {
			cfg.Secrets = append(cfg.Secrets, secret("a"))
		}
		cfg.EmbeddedCookie, cfg.InsecureCookie, cfg.InsecureNoMemory, cfg.Shadow = flag(2), flag(3), flag(4), flag(5)
		cfg.TokenTransport, cfg.Quiet, cfg.Fields = middleware.TokenTransport(carriage), quiet > 0, middleware.Fields(flags>>8)
		if quiet == 2 {
			cfg.TokenTransport = middleware.MemoryOnly
		}
		cfg.Net56Factor, cfg.Net48Factor = net56, net48
		cfg.Instances, cfg.UnfairCeiling = instances, ceiling
		if cfg.MaxClients = tallies; tallies > 1<<16 && tallies <= 1<<24 {
			cfg.MaxClients = 1 << 16 // permitted, and a GiB
		}
		if flag(6) {
			cfg.Challenge = &middleware.Challenge{Mode: middleware.Mode(mode), Work: work, NonceOnly: flag(7), Crowd: crowd, PriceMemory: time.Duration(memory), Path: path,
				BusyPerSecond: perSecond, BusyAtOnce: atOnce}
			cfg.SurgeBudget, cfg.PortBlocks = surge, flag(10)
		}

		m, err := middleware.New(cfg)
		if err != nil {
			require.Nil(t, m)
			for _, field := range problems(t, err) {
				require.Regexp(t, `^(Policy|TokenTransport|EmbeddedCookie|MaxClients|Net56Factor|Net48Factor|Instances|UnfairCeiling|SurgeBudget|PortBlocks|Fields|Secrets(\[[01]\])?|Limits(\[0\]\.(Name|Algorithm|Quota|Window|Burst))?|(?s:Tiers\[".*"\](\[0\]\.(Name|Algorithm|Quota|Window|Burst))?)|Challenge\.(Mode|Work|NonceOnly|Crowd|PriceMemory|Path|BusyPerSecond|BusyAtOnce|WaitingRoom))$`, field)
			}
			// Of a secret the words depend on its length, and on whether it is
			// all zeros or there twice: never on its bytes.
			if zeros := make([]byte, len(key)); !bytes.Equal(key, zeros) && !bytes.Equal(key, secret("a")) {
				cfg.Secrets[0] = bytes.Repeat([]byte{0x5a}, len(key))
			}
			_, again := middleware.New(cfg)
			require.EqualError(t, again, err.Error())
			return
		}
		h := m.Handler(new(spy))
		most := max(1, cfg.Limits[0].Burst)
		if cfg.Limits[0].Algorithm < middleware.TokenBucket || cfg.Limits[0].Algorithm == middleware.TokenBucket && burst == 0 {
			most = quota
		}
		if ceiling {
			most /= instances
		}
		passed := int64(0)
		for range 6 {
			resp := send(h)
			require.Contains(t, []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests}, resp.StatusCode)
			if resp.StatusCode == http.StatusOK {
				passed++
			}
		}
		switch {
		case cfg.Shadow:
			require.Equal(t, int64(6), passed)
		case cfg.Challenge != nil && cfg.Challenge.Mode >= middleware.Newcomers:
			require.Zero(t, passed, "without a proof")
		case cfg.InsecureNoMemory:
			require.Equal(t, int64(6), passed, "each is new")
		default:
			require.Equal(t, min(6, most), passed)
		}
	})
}
