// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"sync"
	"time"
)

// Uses counts, in a fixed size, what each ticket has let in on this instance. It bounds
// nothing: the quota of the waiting room does. It keeps a client that shows one ticket
// all day from going before other holders: a used ticket is void, and the client draws
// the next like all others.
//
// So forgetting does no harm. A full set forgets the use that ends first. To cause that, a client needs as
// many other tickets, which would let in as much. Instances do not share uses. The zero value is empty; safe
// for concurrent use.
type Uses struct {
	mu   sync.Mutex
	sets [useSets][useSetSize]use
}

const (
	useSets    = 256
	useSetSize = 4
)

// use counts what one ticket has let in. The zero value is none.
type use struct {
	serial uint64
	ends   int64 // Unix seconds
	cost   int64
}

// Left reports whether the ticket lets in a request of this cost: the first of any cost,
// further ones as long as all together cost no more than share.
func (u *Uses) Left(now time.Time, t Ticket, cost, share int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := u.find(now, t)
	return found == nil || found.cost == 0 || cost <= share-found.cost
}

// Take counts a request of this cost, if the ticket lets it in: of many at once with one
// ticket no more than share. The ticket is worth nothing from ends on.
func (u *Uses) Take(now time.Time, t Ticket, cost, share int64, ends time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := u.find(now, t)
	if found == nil {
		set := &u.sets[t.Serial%useSets]
		found = &set[0]
		for i := range set {
			if set[i].ends < found.ends {
				found = &set[i]
			}
		}
		*found = use{serial: t.Serial, ends: ends.Unix() + 1}
	}
	if found.cost > 0 && cost > share-found.cost {
		return false
	}
	found.cost += cost
	return true
}

// GiveBack takes back what was counted for a request that was not let in after all.
func (u *Uses) GiveBack(now time.Time, t Ticket, cost int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if found := u.find(now, t); found != nil {
		found.cost = max(0, found.cost-cost)
	}
}

// find returns the use of a ticket, or nil. The lock is held.
func (u *Uses) find(now time.Time, t Ticket) *use {
	set := &u.sets[t.Serial%useSets]
	for i := range set {
		if set[i].serial == t.Serial && set[i].ends > now.Unix() {
			return &set[i]
		}
	}
	return nil
}
