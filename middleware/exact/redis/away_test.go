// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/redis"
	"github.com/tallystick/tallystick/proof/kit"
)

// The start of a program reports that the server is away, not the first request.
func TestAServerThatIsAwayIsTold(t *testing.T) {
	var log bytes.Buffer
	c, err := redis.Open("redis://user:the-password@127.0.0.1:"+kit.FreePort(t), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.True(t, c.(*redis.Counter).Tried())
	require.NoError(t, c.Close())
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "code=redis-away error=")
	require.Contains(t, log.String(), "connection refused")
	require.NotContains(t, log.String(), "the-password")
}

// One that is there has a connection before the first call, and there is nothing to tell.
func TestAServerIsConnectedToAhead(t *testing.T) {
	s := startServer(t)
	var log bytes.Buffer
	c, err := redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.True(t, c.(*redis.Counter).Tried())
	require.Greater(t, strings.Count(s.do("CLIENT", "LIST"), "\n"), 1, "the test's own, and another")
	require.NoError(t, c.Close())
	require.Empty(t, log.String())
}
