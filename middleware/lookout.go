// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A lookout looks at one request a second for what is amiss around a handler: all others
// pay one atomic load. It decides nothing. What it reads was written by anyone, and none of
// it is told.
type lookout struct {
	looked atomic.Int64 // the second of the last look

	mu  sync.Mutex
	one oneClient
}

// due reports whether a request should be looked at, and by how much the clock has
// stepped back since the last one that was, if that is more than requests may overtake
// each other by.
func (l *lookout) due(now time.Time) (back time.Duration, look bool) {
	last, second := l.looked.Load(), now.Unix()
	if second == last || !l.looked.CompareAndSwap(last, second) {
		return 0, false
	}
	if last != 0 && second <= last-60 {
		back = time.Duration(last-second) * time.Second
	}
	return back, true
}

// manyPrograms is how many different User-Agents one client has not.
const manyPrograms = 8

// A oneClient is the only client that is ever seen, and how its requests differ. It is for
// proxies that do not name their clients at all.
type oneClient struct {
	who      netip.Addr
	since    int64 // Unix seconds
	programs []string
}

// note notes which program an address has sent a request by, "" for one that says nothing of
// proxies, and reports whether everybody turns out to be this address.
func (l *lookout) note(now time.Time, who netip.Addr, program string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.one
	if age := now.Unix() - o.since; who != o.who || age >= watchFor || age <= -watchFor {
		*o = oneClient{who: who, since: now.Unix()}
	}
	switch {
	case program == "":
		return false
	case slices.Contains(o.programs, program):
	case len(o.programs) < manyPrograms:
		o.programs = append(o.programs, strings.Clone(program))
	}
	return len(o.programs) == manyPrograms
}
