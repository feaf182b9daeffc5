// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestMain(m *testing.M) {
	exactkit.Process(func(where string) (exact.Counter, error) { return redis.Open(where, redis.Config{}) })
	os.Exit(m.Run())
}

// TestExactAcrossProcesses has four processes make 5000 attempts at a limit of 1000, 20
// times: exactly 1000 pass, also when the way back loses answers.
func TestExactAcrossProcesses(t *testing.T) {
	kit.OnlyWhole(t, "takes most of a minute")
	s := startServer(t)
	require.Zero(t, exactkit.AcrossProcesses(t, 20, 40, s.Addr(), redisAt, open(t, s.url())), "nobody is charged twice")
}
