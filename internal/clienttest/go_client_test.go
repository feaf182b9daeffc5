// SPDX-License-Identifier: Apache-2.0

package clienttest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/kit"
)

// Our own client, in a bubble: what it waits for is over at once.
func TestGoClientPasses(t *testing.T) {
	for name, transport := range map[string]*client.Transport{
		"":      {Workers: 1},
		"waits": {MaxSolves: -1},
		"works": {Workers: 1, MaxWait: -1},
		"echo":  {MaxSolves: -1, MaxWait: -1},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				report := play(t, newServer(t), func(base http.RoundTripper) http.RoundTripper {
					transport.Base = base
					return transport
				})
				require.True(t, report.OK(), "%s", report)
				t.Log(report.String())
				if name == "" {
					require.Len(t, report.Cases, report.Passed, "%s", report)
				}
			})
		})
	}
}
