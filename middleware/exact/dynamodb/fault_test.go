// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"testing"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/kit"
)

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes half a minute")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	exactkit.AmidALoad(t, exactkit.OfAServer(p, s.Kill, s.Start, s.Freeze, s.Thaw), time.Second, func(t *testing.T) exact.Counter {
		return exactkit.Count(t, connect(t, url(p.Addr().String())))
	})
}
