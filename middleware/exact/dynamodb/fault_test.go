// SPDX-License-Identifier: Apache-2.0

package dynamodb_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware/exact"
)

// A fault befalls a server, or the way to it, in the middle of a load, and passes. Meanwhile
// calls fail by their deadlines; what was answered stays counted, nothing is counted twice
// under its ID, and the limit holds.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes half a minute")
	}
	s := startServer(t)
	p := faults.StartProxy(t, s.addr())
	all := append(faults.OfTheWay(p),
		faults.Fault{Name: "killed and restarted", Strike: s.kill, Heal: s.start},
		faults.Fault{Name: "frozen", Strike: func() { s.signal(syscall.SIGSTOP) }, Heal: func() { s.signal(syscall.SIGCONT) }})
	faults.AmidALoad(t, all, time.Second, func(t *testing.T) exact.Counter {
		return count(t, connect(t, "http://"+p.Addr().String()))
	})
}
