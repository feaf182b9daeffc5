// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/redis"
)

// A text is what several goroutines write.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// Whoever starts a program reads that the server is away, and not whoever sends the first request.
func TestAServerThatIsAwayIsTold(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	log := new(text)
	began := time.Now()
	c, err := redis.Open("redis://user:the-password@"+addr, redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	require.Less(t, time.Since(began), patient, "nobody waits for it")
	require.Eventually(t, func() bool { return log.String() != "" }, patient, time.Millisecond)
	require.NoError(t, c.Close())
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "code=redis-away error=")
	require.Contains(t, log.String(), "connection refused")
	require.NotContains(t, log.String(), "the-password")
}

// One that is there has a connection before the first call, and there is nothing to tell.
func TestAServerIsConnectedToAhead(t *testing.T) {
	s := startServer(t)
	log := new(text)
	c, err := redis.Open(s.url(), redis.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Count(s.do("CLIENT", "LIST"), "\n") > 1 }, patient, time.Millisecond)
	require.NoError(t, c.Close())
	require.Empty(t, log.String())
}
