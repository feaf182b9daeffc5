// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// What a large tier is owed a visit in a small one forgives nowhere: not in the
// tallies, nor the networks', the waiting room's or the fallback's.
func TestEveryTierKnowsTheLargestBucket(t *testing.T) {
	secret := sha256.Sum256([]byte("a"))
	bucket := func(burst int64) []Limit {
		return []Limit{{Algorithm: TokenBucket, Quota: 60, Window: time.Minute, Burst: burst}}
	}
	plain := Config{
		Policy:  "contact",
		Limits:  bucket(5),
		Tiers:   map[string][]Limit{"pro": bucket(5000), "trial": bucket(1)},
		Secrets: [][]byte{secret[:]},
	}
	room, counted := plain, plain
	room.Challenge = new(Challenge)
	counted.Exact = &Exact{Counter: memory.New(0, nil), Outage: FailOpen}
	counted.Instances = 2
	for name, row := range map[string]struct {
		cfg   Config
		roles map[string]func(*tier) *limiter.Policy
	}{
		"no challenge": {plain, map[string]func(*tier) *limiter.Policy{
			"policy": func(t *tier) *limiter.Policy { return t.policy },
			"/56":    func(t *tier) *limiter.Policy { return t.net56 },
			"/48":    func(t *tier) *limiter.Policy { return t.net48 },
		}},
		"waiting room": {room, map[string]func(*tier) *limiter.Policy{
			"policy":      func(t *tier) *limiter.Policy { return t.policy },
			"pass":        func(t *tier) *limiter.Policy { return t.pass.policy },
			"room":        func(t *tier) *limiter.Policy { return t.room.policy },
			"/56 of room": func(t *tier) *limiter.Policy { return t.room.net56 },
			"/48 of room": func(t *tier) *limiter.Policy { return t.room.net48 },
		}},
		"exact": {counted, map[string]func(*tier) *limiter.Policy{
			"fallback": func(t *tier) *limiter.Policy { return t.fallback },
			"/56":      func(t *tier) *limiter.Policy { return t.net56 },
			"/48":      func(t *tier) *limiter.Policy { return t.net48 },
		}},
	} {
		e, err := compile(row.cfg)
		require.NoError(t, err)
		now := time.Unix(1_800_000_000, 0)
		for role, policy := range row.roles {
			for _, small := range []*tier{&e.base, e.tiers["trial"]} {
				large := policy(e.tiers["pro"])
				owed, v := large.Step(now, limiter.Tally{}, large.Capacity())
				require.True(t, v.Admitted)
				held, v := policy(small).Step(now, owed, 1)
				require.Equal(t, owed, held, "%s: %s", name, role)
				require.Greater(t, v.Wait, 10*time.Minute, "%s: %s", name, role)
			}
		}
	}
}
