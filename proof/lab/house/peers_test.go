// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// DNS has what Kubernetes has, and nodes keep what it said.
func TestNames(t *testing.T) {
	n, err := serveNames()
	require.NoError(t, err)
	t.Cleanup(n.close)
	ask := func(node int) (pods []string) {
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp4", n.node(node))
		}}
		all, err := r.LookupNetIP(t.Context(), "ip4", "peers.lab.")
		if len(all) == 0 {
			var no *net.DNSError
			require.ErrorAs(t, err, &no)
			require.True(t, no.IsNotFound)
		}
		for _, ip := range all {
			pods = append(pods, ip.String())
		}
		return pods
	}
	age := func(node int, by time.Duration) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.nodes[node].at = n.nodes[node].at.Add(-by)
	}
	require.Empty(t, ask(0))
	ends, lives, begins := netip.MustParseAddr("127.9.0.1"), netip.MustParseAddr("127.9.0.2"), netip.MustParseAddr("127.9.0.3")
	n.set(ends, true)
	n.set(lives, true)
	n.set(ends, false)
	n.set(begins, false)
	require.Equal(t, []string{lives.String()}, ask(0))
	n.Keep(0, true)
	require.ElementsMatch(t, []string{ends.String(), lives.String(), begins.String()}, ask(0))
	n.gone(ends)
	n.Keep(time.Hour, false)
	n.set(begins, true)
	require.Equal(t, []string{lives.String()}, ask(1), "an answer is kept")
	age(1, time.Hour)
	require.ElementsMatch(t, []string{lives.String(), begins.String()}, ask(1))
	require.Equal(t, []string{lives.String()}, ask(2), "each node has its own")
	n.gone(lives)
	n.gone(begins)
	n.Keep(time.Hour, false)
	n.set(lives, true)
	age(0, 9*time.Minute)
	require.Empty(t, ask(0))
	age(0, time.Minute)
	require.Equal(t, []string{lives.String()}, ask(0), "that there is none is kept for a sixth of the time")
}
