// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/middleware/exact/remote"
)

// A member is a process of the ring as this one knows it.
type member struct {
	address string
	place   place
	part    int
	counter engine.CounterCloser // nil: it is this process
}

// members are who is in the ring, in the order of their addresses. They do not change: another list is
// another value.
type members []*member

// owner returns the owner of a key; nil if nobody is known.
func (m members) owner(key place) (best *member) {
	var most uint64
	for _, one := range m {
		if w := one.place.weight(key); best == nil || w > most {
			best, most = one, w
		}
	}
	return best
}

func (m members) addresses() []string {
	list := make([]string, len(m))
	for i, one := range m {
		list[i] = one.address
	}
	return list
}

// partsApart is how many parts of a counter package middleware guards apart: it takes their numbers modulo this. A
// member that comes has one that none has, and that none had for long: the breaker of one that
// has died is none of its business.
const partsApart = 32

// A roster is who is in the ring, by the list of this process.
type roster struct {
	cfg    Config
	placer placer
	dns    resolver
	alarms alarms

	now      atomic.Pointer[members] // nil: nobody has told yet
	changes  atomic.Uint64
	listedAt atomic.Int64 // Unix ns

	mu    sync.Mutex // of who changes it
	parts int        // the number of the next member
}

var errNobody = fmt.Errorf("%w: nobody has told yet who is in the ring", exact.ErrNotCounted)

// owner returns the owner of a key.
func (r *roster) owner(policy *exact.Policy, key string) (*member, error) {
	now := r.now.Load()
	if now == nil {
		return nil, errNobody
	}
	return now.owner(r.placer.key(policy.Name(), key)), nil
}

// list returns the members; nil where nobody has told yet.
func (r *roster) list() members {
	if now := r.now.Load(); now != nil {
		return *now
	}
	return nil
}

// adopt takes a list, which is in order. Who was there before stays the same member.
func (r *roster) adopt(list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listedAt.Store(time.Now().UnixNano())
	before := r.list()
	if slices.Equal(list, before.addresses()) {
		return
	}
	taken := make(map[int]bool)
	for _, m := range before {
		if slices.Contains(list, m.address) {
			taken[m.part%partsApart] = true
		}
	}
	now := make(members, len(list))
	for i, address := range list {
		j := slices.IndexFunc(before, func(m *member) bool { return m.address == address })
		if j >= 0 {
			now[i] = before[j]
			continue
		}
		for len(taken) < partsApart && taken[r.parts%partsApart] {
			r.parts++
		}
		now[i] = r.introduce(address)
		taken[r.parts%partsApart] = true
		r.parts++
	}
	r.now.Store(&now)
	r.changes.Add(1)
	for _, m := range before {
		if m.counter != nil && !slices.Contains(list, m.address) {
			_ = m.counter.Close() // what it was asked is answered; only idle connections end
		}
	}
	r.alarms.members(before.addresses(), list)
}

// introduce makes a member of an address. r.mu is held.
func (r *roster) introduce(address string) *member {
	m := &member{address: address, place: r.placer.member(address), part: r.parts}
	if address == r.cfg.Self {
		return m
	}
	cfg := remote.Config{Secrets: secretsOf(r.cfg.Secrets, address), Transport: r.cfg.Transport, Now: r.cfg.Now}
	counter, err := remote.Open([]string{"http://" + address + "/"}, cfg)
	if err != nil {
		panic(err) // addressOf and Open have checked all of it
	}
	m.counter = counter
	return m
}

// ask asks who is in the ring, and adopts the answer. A list that nobody tells stays as it is: that of
// yesterday names the owners whose accounts count.
func (r *roster) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(r.cfg.Every, time.Second))
	defer cancel()
	find := r.cfg.Find
	if find == nil {
		find = func(ctx context.Context) ([]string, error) { return lookUp(ctx, r.dns, r.cfg.DNS, r.cfg.Self) }
	}
	list, err := find(ctx)
	if err == nil {
		list, err = listOf(list)
	}
	switch {
	case ctx.Err() != nil && err != nil && context.Cause(ctx) == context.Canceled: // it is closed
	case err != nil:
		r.alarms.away(err)
	default:
		r.adopt(list)
		r.alarms.listed(r.cfg.Self, slices.Contains(list, r.cfg.Self))
	}
}

// follow asks again and again, until the ring is closed.
func (r *roster) follow(ctx context.Context) {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.ask(ctx)
		}
	}
}
