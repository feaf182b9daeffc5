// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"sync"
	"time"
)

const (
	refusalSets = 1024 // 1024 sets of 4 refusals: 160 KiB
	refusalWays = 4
)

// A Key is a hash of whom a refusal is about and of the quotas that refused. All 128
// bits are compared.
type Key [16]byte

// Refusals remember what an exact counter refused, so that a key that is spent
// costs no further call until its time.
//
// They have a fixed size. A full set forgets the refusal that ends first, which
// costs a call and nothing else: a refusal that is forgotten is made again. The zero
// value remembers nothing yet.
type Refusals struct {
	sets [refusalSets]refusalSet
}

type refusalSet struct {
	mu   sync.Mutex
	ways [refusalWays]refusal
}

// A refusal says that a request of this cost, or more, will not pass before
// until. A cheaper one may.
type refusal struct {
	key          Key
	cost         int64
	since, until int64 // µs since 1970
}

// Blocked returns for how long a request for key at cost need not be asked about.
func (r *Refusals) Blocked(now time.Time, key Key, cost int64) time.Duration {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		w, us := &set.ways[i], now.UnixMicro()
		// Made in the future, it was made under a clock that has stepped back.
		if w.key == key && cost >= w.cost && w.since <= us {
			return max(0, time.Duration(w.until-us)*time.Microsecond)
		}
	}
	return 0
}

// Note remembers that a request for key at this cost passes after wait, not earlier.
func (r *Refusals) Note(now time.Time, key Key, cost int64, wait time.Duration) {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	first := &set.ways[0]
	for i := range set.ways {
		w := &set.ways[i]
		if w.key == key {
			first = w
			break
		}
		if w.until < first.until {
			first = w
		}
	}
	*first = refusal{key, cost, now.UnixMicro(), now.Add(wait).UnixMicro()}
}

// Forget drops what is remembered of key: something was given back.
func (r *Refusals) Forget(key Key) {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if set.ways[i].key == key {
			set.ways[i] = refusal{}
		}
	}
}

// set returns the set of key, whose bytes are uniform.
func (r *Refusals) set(key Key) *refusalSet {
	return &r.sets[(int(key[0])|int(key[1])<<8)%refusalSets]
}
