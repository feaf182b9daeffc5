// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tallystick/tallystick/proof/lab/instance"
)

// A book notes what every identity was admitted, of each policy that is limited by windows, in
// each window of each instance's own clock. No client can lie to it: it is behind the limits.
type book struct {
	mu       sync.Mutex
	admitted map[entry]int64
	names    map[tenant]string
	owned    map[tenant][]int64 // of each tally that was sold to one: the last window in which it lives
	most     map[string]map[int64]int64
	anew     map[[2]int64]int64 // how often a window began anew, by instance and window
	slack    int64              // that is added to every bound: for tests
	worst    map[string]*reached
}

// A tenant is an identity under a policy.
type tenant struct {
	policy  string
	address netip.Addr
}

// everybody is the tenant in whose name all are counted that were let in to /busy without work.
var everybody = tenant{policy: busy}

// withoutWork is what everybody is called.
const withoutWork = "all, without work,"

// A part is what a request was charged to. Each has a bound of its own.
type part string

const (
	shared part = "shared" // what its address has for nothing
	bought part = "bought"
	waited part = "waited" // the waiting room
)

// partOf returns what a decision has charged.
func partOf(d instance.Decision) part {
	switch {
	case d.Own:
		return bought
	case d.Room:
		return waited
	}
	return shared
}

type entry struct {
	tenant
	part
	instance int
	window   int64
}

// reached is how close clients of one kind came to a bound.
type reached struct{ admitted, bound, over int64 }

func newBook(slack int64) *book {
	return &book{
		slack:    slack,
		admitted: map[entry]int64{}, names: map[tenant]string{}, owned: map[tenant][]int64{},
		most: map[string]map[int64]int64{}, anew: map[[2]int64]int64{}, worst: map[string]*reached{},
	}
}

// admit notes an admitted request of somebody that calls itself so, while the quota was up to most.
func (b *book) admit(t tenant, name string, p part, instance int, at, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admitted[entry{t, p, instance, at}]++
	b.names[t] = name
	if t.policy == busy && p == shared && b.admitted[entry{t, p, instance, at}] <= ownPart {
		b.admitted[entry{everybody, p, instance, at}]++
		b.names[everybody] = withoutWork
	}
	if b.most[t.policy] == nil {
		b.most[t.policy] = map[int64]int64{}
	}
	b.most[t.policy][at] = max(b.most[t.policy][at], most)
}

// buys notes a tally that was sold to a tenant, and the last window in which it lives.
func (b *book) buys(t tenant, last int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owned[t] = append(b.owned[t], last)
}

// restart notes that an instance's clock was set back past the beginning of a window and forward
// again: it counts as one that has started, docs/bounds.md.
func (b *book) restart(instance int, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.anew[[2]int64{int64(instance), at}]++
}

// bound returns how much may be admitted of an entry. All entries of an identity together come to what
// docs/bounds.md says: (N+C)·L shared, F·(N+C)·L bought, and a fifth of (N+C)·L waited. An instance that began anew
// is one more in C.
func (b *book) bound(e entry) (n int64) {
	quota := b.most[e.policy][e.window]
	if e.policy == bucket {
		quota += burst
	}
	switch {
	case e.tenant == everybody:
		n = perSecond*(permitted+10) + onTheirWay
	case e.part == bought:
		for _, last := range b.owned[e.tenant] {
			if last >= e.window {
				n += quota
			}
		}
	case e.part == waited:
		n = max(1, quota/5)
	default:
		n = quota
	}
	return n*(1+b.anew[[2]int64{int64(e.instance), e.window}]) + b.slack
}

// close judges what happened before a window, and forgets it. No clock may go back there.
func (b *book) close(before int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e, n := range b.admitted {
		if e.window >= before {
			continue
		}
		bound := b.bound(e)
		kind := b.names[e.tenant]
		if e.tenant != everybody {
			kind, _, _ = strings.Cut(kind, " ")
		}
		if honest(kind) {
			kind = "honest"
		}
		kind = fmt.Sprintf("%s on /%s", kind, e.policy)
		if e.part != shared {
			kind += ", " + string(e.part)
		}
		w := b.worst[kind]
		if w == nil {
			w = &reached{}
			b.worst[kind] = w
		}
		if n > bound {
			w.over++
		}
		if w.bound == 0 || n*w.bound > w.admitted*bound {
			w.admitted, w.bound = n, bound
		}
		delete(b.admitted, e)
	}
	live := map[tenant]bool{}
	for e := range b.admitted {
		live[e.tenant] = true
	}
	maps.DeleteFunc(b.names, func(t tenant, _ string) bool { return !live[t] })
	maps.DeleteFunc(b.owned, func(_ tenant, all []int64) bool { return slices.Max(all) < before })
	for _, of := range b.most {
		for at := range of {
			if at < before {
				delete(of, at)
			}
		}
	}
	for key := range b.anew {
		if key[1] < before {
			delete(b.anew, key)
		}
	}
}

// honest reports whether a client is one that does what the documentation says.
func honest(name string) bool {
	kind, _, _ := strings.Cut(name, " ")
	switch kind {
	case "steady", "full", "metered", "browser", "buyer", "holder", "newcomer", "waiter", "payer", "body", "crew", "caller", "uploader", "probe":
		return true
	}
	return false
}
