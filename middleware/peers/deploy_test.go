// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// A cluster is the DNS of one: it names the pods that are ready, as they were when the cache was filled last.
type cluster struct {
	mu     sync.Mutex
	ready  []string
	cached []string
}

func (c *cluster) find(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.cached), nil
}

// fill has the cache know what is so, for half a minute at a time.
func (c *cluster) fill(t *testing.T) {
	for {
		c.mu.Lock()
		c.cached = slices.Clone(c.ready)
		c.mu.Unlock()
		select {
		case <-t.Context().Done():
			return
		case <-time.After(30 * time.Second):
		}
	}
}

func (c *cluster) set(one string, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = slices.DeleteFunc(c.ready, func(s string) bool { return s == one })
	if ready {
		c.ready = append(c.ready, one)
	}
}

// Pods that are replaced one after the other hear each other all the time, and know what those before them have admitted,
// though DNS is late by half a minute: a process also greets those that its peers hear.
func TestARollingDeployWithALateList(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, dns, admitted := newWorld(t), new(cluster), 0
		go dns.fill(t)
		byDNS := func(c *Config) { c.Find = dns.find }
		var live []*member
		list := addresses(40)
		for i, address := range list[:4] {
			live = append(live, w.start(address, members(list[:i+1]...)))
			dns.set(address, true)
		}
		time.Sleep(31 * time.Second)
		for _, address := range list[4:] { // ten whole deploys
			next := w.start(address, byDNS)
			live = append(live, next)
			time.Sleep(10 * time.Second)
			for _, m := range live {
				require.Len(t, m.Stats().Heard, len(live)-1, "%s when %s has started", m.address, address)
				m.add(1)
				admitted++
			}
			dns.set(address, true)
			dns.set(live[0].address, false)
			require.NoError(t, live[0].Close(t.Context()))
			live = live[1:]
			time.Sleep(50 * time.Millisecond)
			for _, m := range live {
				require.Equal(t, admitted, m.sum(), m.address)
				require.NotContains(t, m.log.String(), "peers-alone")
			}
		}
		for _, m := range live {
			closeAll(m)
		}
	})
}
