// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

// domains are where the operators say that their crawlers are, by a word of the User-Agent.
var domains = map[string][]string{
	"Googlebot": {".googlebot.com.", ".google.com."},
	"bingbot":   {".search.msn.com."},
	"Applebot":  {".applebot.apple.com."},
}

// crawlers skip the limit of visitors where DNS proves whose they are, as long as their own has room.
type crawlers struct {
	limit    *middleware.Middleware // one tally for each crawler
	identity middleware.IdentityFunc
	resolver *net.Resolver
	asking   sync.Mutex // one question is under way at a time

	mu    sync.Mutex
	since time.Time
	known map[netip.Addr]string // what DNS has said: the crawler, or ""
}

func (c *crawlers) skip(r *http.Request) bool {
	for name := range domains {
		if strings.Contains(r.UserAgent(), name) {
			id, err := c.identity(r)
			if err != nil || c.of(id.Addr()) != name {
				return false
			}
			a, err := c.limit.Decide(r.Context(), middleware.Ask{Identity: middleware.Principal(name)})
			return err == nil && a.Allowed
		}
	}
	return false
}

func (c *crawlers) of(addr netip.Addr) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.since) > time.Hour || len(c.known) >= 10_000 {
		c.since, c.known = time.Now(), map[netip.Addr]string{}
	}
	if name, known := c.known[addr]; known || !c.asking.TryLock() {
		return name
	}
	defer c.asking.Unlock()
	c.mu.Unlock()
	name := c.ask(addr)
	c.mu.Lock()
	c.known[addr] = name
	return name
}

func (c *crawlers) ask(addr netip.Addr) string {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // not the client's: the answer is kept
	defer cancel()
	hosts, _ := c.resolver.LookupAddr(ctx, addr.String()) // an error proves nothing
	for _, host := range hosts[:min(len(hosts), 4)] {
		for name := range domains {
			if slices.ContainsFunc(domains[name], func(d string) bool { return strings.HasSuffix(host, d) }) {
				back, _ := c.resolver.LookupNetIP(ctx, "ip", host)
				if slices.ContainsFunc(back, func(a netip.Addr) bool { return a.Unmap() == addr }) {
					return name
				}
			}
		}
	}
	return ""
}
