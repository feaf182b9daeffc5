package middleware

import (
	"sync"
	"time"
)

const (
	spentSets = 1024 // 1024 sets of 4 refusals: 160 KiB
	spentWays = 4
)

// spentKeys remember what an exact counter refused, so that a key that is spent
// costs no further call until its time. It is keyed by the whole hash of a key:
// it is what refuses, and must not take one key for another.
//
// It has a fixed size. A full set forgets the refusal that ends first, which
// costs a call and nothing else: a refusal that is forgotten is made again.
type spentKeys struct {
	sets [spentSets]spentSet
}

type spentSet struct {
	mu   sync.Mutex
	ways [spentWays]spentKey
}

// A spentKey says that a request of this cost, or more, will not pass before
// until. A cheaper one may.
type spentKey struct {
	key          counterKey
	cost         int64
	since, until int64 // µs since 1970
}

// blocked returns for how long a request for key at cost need not be asked about.
func (s *spentKeys) blocked(key counterKey, cost int64, now time.Time) time.Duration {
	set := s.set(key)
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

// note remembers a refusal.
func (s *spentKeys) note(key counterKey, cost int64, now time.Time, wait time.Duration) {
	set := s.set(key)
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
	*first = spentKey{key, cost, now.UnixMicro(), now.Add(wait).UnixMicro()}
}

// forget drops what is remembered of key: something was given back.
func (s *spentKeys) forget(key counterKey) {
	set := s.set(key)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.ways {
		if set.ways[i].key == key {
			set.ways[i] = spentKey{}
		}
	}
}

// set returns the set of key, whose bytes are uniform.
func (s *spentKeys) set(key counterKey) *spentSet {
	return &s.sets[(int(key[0])|int(key[1])<<8)%spentSets]
}
