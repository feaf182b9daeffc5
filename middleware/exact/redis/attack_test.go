// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

func TestMain(m *testing.M) {
	faults.Process(func(where string) (exact.Counter, error) { return redis.Open(where, redis.Config{}) })
	os.Exit(m.Run())
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000, 20
// times: exactly 1000 pass, also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes most of a minute")
	}
	s := startServer(t)
	c := open(t, s.url())
	t.Run("directly", func(t *testing.T) { faults.Processes(t, 20, s.url(), c, nil) })
	t.Run("with lost answers", func(t *testing.T) {
		lossy := faults.StartProxy(t, s.addr())
		lossy.Set(faults.Ways{LoseEvery: 40})
		require.Zero(t, faults.Processes(t, 20, throughProxy(lossy), c, lossy), "nobody is charged twice")
	})
}
