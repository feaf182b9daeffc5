// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
)

// A book notes what every identity was admitted, of each policy that is limited by windows, in
// each window of each instance's own clock. No client can lie to it: it is behind the limits.
type book struct {
	mu       sync.Mutex
	admitted map[entry]int64
	names    map[tenant]string
	bought   map[tenant]int64 // F
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

type entry struct {
	tenant
	instance int
	window   int64
}

// reached is how close clients of one kind came to a bound.
type reached struct{ admitted, bound, over int64 }

func newBook() *book {
	return &book{
		admitted: map[entry]int64{}, names: map[tenant]string{}, bought: map[tenant]int64{},
		most: map[string]map[int64]int64{}, anew: map[[2]int64]int64{}, worst: map[string]*reached{},
	}
}

// admit notes an admitted request of somebody that calls itself so, while the quota was up to most.
func (b *book) admit(t tenant, name string, instance int, at, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admitted[entry{t, instance, at}]++
	b.names[t] = name
	if b.most[t.policy] == nil {
		b.most[t.policy] = map[int64]int64{}
	}
	b.most[t.policy][at] = max(b.most[t.policy][at], most)
}

// buys notes a tally that was sold to a tenant.
func (b *book) buys(t tenant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bought[t]++
}

// restart notes that an instance's clock was set back past the beginning of a window and forward
// again: it counts as one that has started, docs/clocks.md.
func (b *book) restart(instance int, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.anew[[2]int64{int64(instance), at}]++
}

// close judges what happened before a window, and forgets it. No clock may go back there.
// An identity is admitted at most L on each instance, and as much more for each tally that it has
// bought and for each time that the instance began anew; a further fifth in the waiting room.
func (b *book) close(before int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e, n := range b.admitted {
		if e.window >= before {
			continue
		}
		quota := b.most[e.policy][e.window]
		each := quota * (1 + b.bought[e.tenant])
		if e.policy == form {
			each += max(1, quota/5)
		}
		bound := each*(1+b.anew[[2]int64{int64(e.instance), e.window}]) + b.slack
		kind, _, _ := strings.Cut(b.names[e.tenant], " ")
		if honest(kind) {
			kind = "honest"
		}
		kind = fmt.Sprintf("%s on /%s", kind, e.policy)
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
	// A tally that was bought before this and is used after it counts as none: nobody has several
	// for so long.
	live := map[tenant]bool{}
	for e := range b.admitted {
		live[e.tenant] = true
	}
	maps.DeleteFunc(b.names, func(t tenant, _ string) bool { return !live[t] })
	maps.DeleteFunc(b.bought, func(t tenant, _ int64) bool { return !live[t] })
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
