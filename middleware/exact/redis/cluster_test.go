package redis_test

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

// TestCluster runs the suite on three nodes, each with a third of the slots.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a cluster takes seconds to form")
	}
	var nodes [3]*server
	for i := range nodes {
		nodes[i] = startServer(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-node-timeout", "2000")
	}
	for i, s := range nodes {
		require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*5461), strconv.Itoa(i*5461+5460)))
		if i == 2 {
			require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTS", "16383"))
		}
	}
	for _, s := range nodes[1:] {
		require.Equal(t, "+OK", nodes[0].do("CLUSTER", "MEET", "127.0.0.1", s.port, s.args[3]))
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool {
			info := s.do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}, patient, 50*time.Millisecond)
	}
	require.NoError(t, exacttest.TestCounter(func() (exact.Counter, error) {
		return redis.Open(nodes[1].url(), redis.Config{})
	}, nil))

	// Many keys, on all nodes.
	c := open(t, nodes[2].url())
	p := compile(t, yearly(3))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for n := w; n < 5000; n += 32 {
				v, err := c.Take(t.Context(), exact.Call{Key: strconv.Itoa(n % 1000), Cost: 1, Policy: p, ID: strconv.Itoa(n)})
				if err != nil {
					t.Error(err)
					return
				}
				if v.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3000, admitted.Load())
	for _, s := range nodes {
		size := s.do("DBSIZE")
		n, err := strconv.Atoi(strings.TrimPrefix(size, ":"))
		require.NoError(t, err)
		require.Greater(t, n, 1000, "every node has its part")
	}
}
