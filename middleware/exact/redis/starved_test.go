// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/proof/exactkit/front"
	"github.com/tallystick/tallystick/proof/kit"
)

// A flood that takes all of the instance's own processors is load, though the server is far
// enough away that its answers are not read in time.
func TestFloodThatStarvesTheInstance(t *testing.T) {
	if kit.Brief() {
		t.Skip("two seconds of all processors")
	}
	s := startServer(t)
	p := exactkit.StartProxy(t, s.Addr())
	site := front.NewSite(t, open(t, throughProxy(p)), middleware.FailOpen, limit, 50*time.Millisecond)
	site.Ask("warm")
	p.Set(exactkit.Ways{Delay: 10 * time.Millisecond})
	var passed, fallback, refused, payers, starved atomic.Int64
	over := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 600 {
		wg.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-over:
					return
				default:
				}
				status, degraded := site.Ask(fmt.Sprintf("10.%d.%d.%d", n/250, n%250, k%250))
				switch {
				case degraded:
					fallback.Add(1)
				case status == http.StatusOK:
					passed.Add(1)
					continue
				default:
					refused.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
			wg.Go(func() {
				if status, degraded := site.Ask(fmt.Sprint("payer", n%20)); status == http.StatusOK && !degraded {
					payers.Add(1)
				} else {
					starved.Add(1)
				}
			})
		}
	})
	time.Sleep(2 * time.Second)
	close(over)
	wg.Wait()
	t.Logf("strangers: %d passed, %d by the fallback, %d refused; payers: %d passed, %d not; %d alarms",
		passed.Load(), fallback.Load(), refused.Load(), payers.Load(), starved.Load(), site.Log.Count("does not answer"))
	require.Zero(t, fallback.Load())
	require.Zero(t, site.Log.Count("does not answer"))
}
