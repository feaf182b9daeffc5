// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"sync"
	"time"
)

const (
	refusalSets = 1024 // 1024 sets of 4 refusals: 208 KiB
	refusalWays = 4
)

// Believed is how long a refusal is believed. The counter may have changed since:
// another instance refunded, or an operator deleted an account. Only a new call would
// show that.
const Believed = 10 * time.Second

// A Key is a hash of the refused client and of the quotas that refused. All 128 bits
// are compared.
type Key [16]byte

// A Refusal says that a request of this cost, or more, in the unit of its Limit, will not pass before Until. A
// cheaper one may. The zero Refusal says nothing.
type Refusal struct {
	Cost        int64
	Said, Until int64 // µs since 1970
	Remaining   int32 // of Limit
	Limit       uint8 // the index of the limit that refuses for longest, or NoLimit
}

// NoLimit is the Limit of a refusal that does not say which limit has refused. An exact route has at most seven.
const NoLimit = 7

// Left returns for how long a refusal still refuses: 0 if its time is over.
func (r *Refusal) Left(now time.Time) time.Duration {
	return max(0, time.Duration(r.Until-now.UnixMicro())*time.Microsecond)
}

// Fresh reports whether a refusal was said no longer ago than long. One of the future was
// said by a clock that was wrong, or is.
func (r *Refusal) Fresh(now time.Time, long time.Duration) bool {
	ago := now.UnixMicro() - r.Said
	return ago >= 0 && ago < long.Microseconds()
}

// Refusals remember what an exact counter refused, so that a key that is spent
// costs one call in a while.
//
// They have a fixed size. A full set forgets the refusal that ends first, which
// costs a call and nothing else: a refusal that is forgotten is made again. The zero
// value remembers nothing yet.
type Refusals struct {
	sets [refusalSets]refusalSet

	mu    sync.Mutex
	asked map[Key]chan struct{} // keys with a call under way; closed when the answer is there
}

type refusalSet struct {
	mu        sync.Mutex
	ways      [refusalWays]keyedRefusal
	givenBack uint64 // how often something was given back to one of its keys
}

type keyedRefusal struct {
	key Key
	Refusal
}

// Look returns what is remembered of a request for key at these costs, by the limit, and what [Refusals.Note] has
// to be told of the answer, if the counter is asked all the same.
func (r *Refusals) Look(now time.Time, key Key, cost func(limit uint8) int64) (known Refusal, givenBack uint64) {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if w := &set.ways[i]; w.key == key && cost(w.Limit) >= w.Cost && w.Left(now) > 0 {
			return w.Refusal, set.givenBack
		}
	}
	return known, set.givenBack
}

// Note remembers a refusal of key, and reports whether it does. It does not if something was
// given back since the look: the two may have met on their ways.
func (r *Refusals) Note(key Key, said Refusal, givenBack uint64) bool {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.givenBack != givenBack {
		return false
	}
	first := &set.ways[0]
	for i := range set.ways {
		w := &set.ways[i]
		if w.key == key {
			first = w
			break
		}
		if w.Until < first.Until {
			first = w
		}
	}
	*first = keyedRefusal{key, said}
	return true
}

// Forget drops what is remembered of key, because something was given back.
func (r *Refusals) Forget(key Key) {
	set := r.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.givenBack++
	for i := range set.ways {
		if set.ways[i].key == key {
			set.ways[i] = keyedRefusal{}
		}
	}
}

// Ask lets one of several callers with the same key ask the counter; that caller calls
// answered. The others wait for that, at most as long as an answer may take, and get nil.
func (r *Refusals) Ask(key Key, most time.Duration) (answered func()) {
	r.mu.Lock()
	if there, asked := r.asked[key]; asked {
		r.mu.Unlock()
		late := time.NewTimer(most)
		defer late.Stop()
		select {
		case <-there:
		case <-late.C:
		}
		return nil
	}
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = make(map[Key]chan struct{})
	}
	there := make(chan struct{})
	r.asked[key] = there
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, key)
		close(there)
	}
}

// set returns the set of key, whose bytes are uniform.
func (r *Refusals) set(key Key) *refusalSet {
	return &r.sets[(int(key[0])|int(key[1])<<8)%refusalSets]
}
