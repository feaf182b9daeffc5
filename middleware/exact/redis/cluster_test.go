// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
	"github.com/tallystick/tallystick/proof/kit"
)

// startCluster starts three nodes, each with a third of the slots.
func startCluster(t *testing.T) [3]*server {
	t.Helper()
	kit.OnlyWhole(t, "waits for a cluster to form, for seconds")
	var nodes [3]*server
	for i := range nodes {
		// Of a node that is silent for longer the others say CLUSTERDOWN, and answer nobody.
		nodes[i] = startServer(t, "--cluster-enabled", "yes", "--cluster-port", kit.FreePort(t), "--cluster-node-timeout", "600000")
	}
	for i, s := range nodes {
		require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*5461), strconv.Itoa(i*5461+5460)))
		if i == 2 {
			require.Equal(t, "+OK", s.do("CLUSTER", "ADDSLOTS", "16383"))
		}
	}
	for _, s := range nodes[1:] {
		require.Equal(t, "+OK", nodes[0].do("CLUSTER", "MEET", "127.0.0.1", s.Port, s.args[3]))
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool {
			info := s.do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}, patient, 50*time.Millisecond)
	}
	return nodes
}

// TestCluster runs the suite on three nodes.
func TestCluster(t *testing.T) {
	nodes := startCluster(t)
	suite := exacttest.Suite{Open: func() (exact.Counter, error) {
		return dialed(t, nodes[1].url())
	}}
	require.NoError(t, suite.Test())

	// Many keys, on all nodes.
	c := open(t, nodes[2].url())
	p := exactkit.PerYear(t, 3)
	require.EqualValues(t, 3000, exactkit.Admitted(t, 32, 157, func(w, n int) (exact.Counter, exact.Call) {
		n = 32*n + w
		return c, exact.Call{Key: strconv.Itoa(n % 1000), Cost: 1, Policy: p, ID: strconv.Itoa(n)}
	}))
	for _, s := range nodes {
		size := s.do("DBSIZE")
		n, err := strconv.Atoi(strings.TrimPrefix(size, ":"))
		require.NoError(t, err)
		require.Greater(t, n, 250, "every node has its part")
	}
}

// One node that hangs is an outage for its customers, and for no others.
func TestOneHungNodeOfACluster(t *testing.T) {
	nodes := startCluster(t)
	counter := open(t, nodes[1].url())
	// On a busy machine a node that is well may take long; the hung one never answers.
	site := front.NewSite(t, counter, middleware.FailClosed, limit, 3*time.Second)
	call := exact.Call{Cost: 1, Policy: exactkit.PerYear(t, limit)}
	var customers [3][]string // by node
	require.Eventually(t, func() bool {
		site.Ask("warm")
		parts := make(map[int]bool)
		for n := range 100 {
			call.Key = fmt.Sprint(n)
			parts[counter.Part(call)] = true
		}
		return len(parts) == len(nodes)
	}, patient, 10*time.Millisecond, "the counter knows its nodes")
	// Which node has a customer is seen where it is counted.
	size := func() (sizes [3]string) {
		for i, s := range nodes {
			sizes[i] = s.do("DBSIZE")
		}
		return sizes
	}
	for n := 0; len(customers[0]) < 8 || len(customers[1]) < 16 || len(customers[2]) < 16; n++ {
		customer := fmt.Sprint("customer", n)
		before := size()
		status, _ := site.Ask(customer)
		require.Equal(t, http.StatusOK, status)
		for i, now := range size() {
			if now != before[i] {
				customers[i] = append(customers[i], customer)
			}
		}
	}

	nodes[0].Freeze()
	defer nodes[0].Thaw()
	var wg sync.WaitGroup
	var well, refused, busy, ill atomic.Int64
	end := make(chan struct{})
	for w := range 48 {
		wg.Go(func() {
			node := w % 3
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				status, outage := site.Ask(customers[node][n%len(customers[node])])
				switch {
				case node == 0:
					ill.Add(1)
				case outage:
					refused.Add(1)
				case status == http.StatusServiceUnavailable:
					busy.Add(1)
				default:
					well.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	require.Eventually(t, func() bool { return site.Log.Count("does not answer") == 1 && well.Load() > 2000 }, patient, 10*time.Millisecond)
	close(end)
	ends(t, &wg)
	t.Logf("healthy nodes: %d requests answered, %d not, and %d had no turn; on the hung one %d", well.Load(), refused.Load(), busy.Load(), ill.Load())
	require.Zero(t, refused.Load(), "nobody on a healthy node is refused for want of an answer")
	require.Less(t, busy.Load(), well.Load()/4, "a machine that is busy for a moment, and nothing else")

	nodes[0].Thaw()
	require.Eventually(t, func() bool {
		status, _ := site.Ask(customers[0][0])
		return status != http.StatusServiceUnavailable
	}, patient, 20*time.Millisecond, "it recovers by itself")
}
