// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRedisEndsWithItsInstance(t *testing.T) {
	s, err := StartRedis(t.Context())
	need(t, err)
	require.DirExists(t, s.dir)
	var dialer net.Dialer
	require.Eventually(t, func() bool {
		c, err := dialer.DialContext(t.Context(), "tcp", s.addr)
		return err == nil && c.Close() == nil
	}, 5*time.Minute, 10*time.Millisecond)

	require.NoError(t, s.Stop())
	require.NoDirExists(t, s.dir)
	require.Error(t, s.cmd.Process.Signal(os.Interrupt), "the process is gone")
	_, err = dialer.DialContext(t.Context(), "tcp", s.addr)
	require.Error(t, err)
}

func TestNoRedisIsSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := StartRedis(t.Context())
	require.ErrorIs(t, err, ErrNoRedis)
	require.ErrorContains(t, err, "apt-get install redis-server")
}
