// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/faults"
	"github.com/tallystick/tallystick/middleware"
)

// A fault is something that befalls a server, and how it passes.
type fault struct {
	name   string
	strike func()
	heal   func()
	loses  bool // what was counted before
}

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes most of a minute")
	}
	for _, outage := range []middleware.Outage{middleware.FailOpen, middleware.FailClosed} {
		t.Run(map[middleware.Outage]string{middleware.FailOpen: "open", middleware.FailClosed: "closed"}[outage], func(t *testing.T) {
			s := startServer(t)
			p := faults.StartProxy(t, s.addr())
			for _, f := range []fault{
				{"killed, restarted empty", s.kill, func() { s.start() }, true},
				{"frozen", func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) }, false},
				{"slow", func() { p.Set(faults.Ways{Delay: 4 * deadline}) }, func() { p.Set(faults.Ways{}) }, false},
				{"drops answers", func() { p.Set(faults.Ways{Swallow: true}) }, func() { p.Set(faults.Ways{}) }, false},
				{"cuts in the middle of answers", func() { p.Set(faults.Ways{CutAfter: 2}) }, func() { p.Set(faults.Ways{}) }, false},
				{"memory full", func() { s.do("CONFIG", "SET", "maxmemory", "1") }, func() { s.do("CONFIG", "SET", "maxmemory", "0") }, false},
				{"read-only replica", func() { s.do("REPLICAOF", "127.0.0.1", "1") }, func() { s.do("REPLICAOF", "NO", "ONE") }, false},
				{"loads", func() {
					// Some thousand keys, of which each takes some ms to load.
					s.do("EVAL", "for i = 1, 10000 do redis.call('SET', 'filler' .. i, i) end", "0")
					require.Equal(t, "+OK", s.do("SAVE"))
					s.kill()
					s.start("--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
				}, func() {
					s.do("CONFIG", "SET", "key-load-delay", "0")
					require.Eventually(t, func() bool { return s.do("DEL", "filler1") != "" && !strings.HasPrefix(s.do("GET", "k"), "-LOADING") }, patient, 10*time.Millisecond)
				}, false},
				{"wrong password", func() {
					s.do("CONFIG", "SET", "requirepass", "changed")
					p.Cut()
				}, func() { s.authenticated("changed", "CONFIG", "SET", "requirepass", "") }, false},
			} {
				t.Run(f.name, func(t *testing.T) { befall(t, p, outage, &f) })
			}
		})
	}
}

// befall has a fault strike in the middle of a load and pass again.
func befall(t *testing.T, p *faults.Proxy, outage middleware.Outage, f *fault) {
	before := runtime.NumGoroutine()
	counter := open(t, throughProxy(p))
	site := newSite(t, counter, outage, deadline)
	// Where nothing is wrong, a busy machine must not look like it: the same counter, by
	// the longest deadline there is.
	calm := newSite(t, counter, outage, 10*time.Second)

	well := calm.load(t, t.Name()+"-well", 50)
	require.Empty(t, well.degraded)
	require.Equal(t, []int{http.StatusOK}, keys(well.statuses))
	require.Zero(t, calm.log.count("answer"), "nothing to tell")

	// One customer spends half of what he has before the fault.
	spender := t.Name() + "-spender"
	spent := 0
	for range limit / 2 {
		if status, _ := calm.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	require.Equal(t, limit/2, spent)

	f.strike()
	ill := site.load(t, t.Name()+"-ill", 600) // longer than the second of silence that is an outage
	want := map[middleware.Outage]int{middleware.FailOpen: http.StatusOK, middleware.FailClosed: http.StatusServiceUnavailable}[outage]
	require.Equal(t, []int{want}, keys(ill.degraded), "the policy's choice holds")
	require.Less(t, ill.statuses[http.StatusOK], ill.asked/10, "most of them fell into the fault")
	for customer, n := range ill.admitted {
		require.LessOrEqual(t, n, 2*limit, "%s: the counter's quota and the fallback's", customer)
	}
	require.Equal(t, 1, site.log.count("does not answer"), "one alarm")
	require.Zero(t, site.log.count("answers again"), "and no all-clear before the cure")
	t.Logf("%d requests in the fault; customers' p99 %s, before %s; at most %d goroutines", ill.asked, ill.p99(), well.p99(), ill.goroutines)
	require.Less(t, ill.goroutines, before+2*clients+3*256, "goroutines are bounded")

	for range 2 * limit {
		if status, _ := site.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	most := 2 * limit // the counter's, and the fallback's
	f.heal()
	site.recovers(t)
	require.Eventually(t, func() bool { return site.log.count("answers again") == 1 }, patient, 10*time.Millisecond, "one log line")

	again := calm.load(t, t.Name()+"-again", 50)
	require.Empty(t, again.degraded)
	require.Equal(t, []int{http.StatusOK}, keys(again.statuses))
	for range 2 * limit {
		if status, _ := site.ask(spender); status == http.StatusOK {
			spent++
		}
	}
	if f.loses {
		most += limit
	}
	require.LessOrEqual(t, spent, most, "nothing above the bound")
	require.Equal(t, 1, site.log.count("does not answer"))

	require.NoError(t, counter.Close())
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+8 }, patient, 20*time.Millisecond, "goroutines end")
}
