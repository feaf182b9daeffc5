// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
	"github.com/tallystick/tallystick/proof/kit"
)

// What befalls a server, or the way to it, in the middle of a load, and passes.
func TestFaults(t *testing.T) {
	kit.OnlyWhole(t, "takes most of a minute")
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	all := append(exactkit.OfAServer(p, s.Kill, s.Start, s.Freeze, s.Thaw),
		exactkit.Fault{Name: "slow", Strike: func() { p.Set(exactkit.Ways{Delay: 4 * deadline}) }, Heal: func() { p.Set(exactkit.Ways{}); p.Cut() }},
		exactkit.Fault{Name: "memory full", Strike: func() { s.do("CONFIG", "SET", "maxmemory", "1") }, Heal: func() { s.do("CONFIG", "SET", "maxmemory", "0") }},
		exactkit.Fault{Name: "read-only replica", Strike: func() { s.do("REPLICAOF", "127.0.0.1", "1") }, Heal: func() { s.do("REPLICAOF", "NO", "ONE") }},
		exactkit.Fault{Name: "loads", Strike: func() {
			// Some thousand keys, of which each takes some ms to load.
			s.do("EVAL", "for i = 1, 10000 do redis.call('SET', 'filler' .. i, i) end", "0")
			// What is counted is saved: nothing is between here and the kill, which ends the pause.
			require.Equal(t, "+OK", s.do("CLIENT", "PAUSE", "3600000", "WRITE"))
			require.Equal(t, "+OK", s.do("SAVE"))
			s.Kill()
			s.args = []string{"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"}
			s.Start()
		}, Heal: func() {
			s.do("CONFIG", "SET", "key-load-delay", "0")
			require.Eventually(t, func() bool { return s.do("DEL", "filler1") != "" && !strings.HasPrefix(s.do("GET", "k"), "-LOADING") }, patient, 10*time.Millisecond)
		}},
		exactkit.Fault{Name: "wrong password", Strike: func() {
			s.do("CONFIG", "SET", "requirepass", "changed")
			p.Cut()
		}, Heal: func() { s.authenticated("changed", "CONFIG", "SET", "requirepass", "") }})
	all[2].Loses = true
	before := runtime.NumGoroutine()
	exactkit.AmidALoad(t, all, deadline, func(t *testing.T) exact.Counter { return open(t, throughProxy(p)) })
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, patient, 20*time.Millisecond, "goroutines end")
}

// The middleware in front, while its server is away, whichever way that is.
func TestTheMiddlewareInFront(t *testing.T) {
	s, c := opened(t)
	all := exactkit.OfAServer(nil, s.Kill, s.Start, s.Freeze, s.Thaw)[2:]
	all[0].Loses = true
	front.Of(t, c, all)
}

func TestRefusalsHearOfWhatIsChangedElsewhere(t *testing.T) {
	s, c := opened(t)
	front.Elsewhere(t, c, func() { s.do("FLUSHALL") })
}
