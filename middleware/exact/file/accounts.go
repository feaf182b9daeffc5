// SPDX-License-Identifier: Apache-2.0

package file

import (
	"reflect"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// An account is the encoded [engine.Account] of one name; this package does not decode
// it.
type account struct {
	name, bytes string
}

// accounts are all accounts on disk, by name. Memory holds them encoded: decoding takes less
// time than a commit, and the encoded form a twentieth of the memory of some.
type accounts struct {
	mu    sync.Mutex // held for a look at most: no work and no write
	byKey map[string]string
	bytes int64           // in the snapshot
	most  int             // how many there have been
	dirty map[string]bool // what has changed since a snapshot was begun; nil: there is none

	seen engine.IdleClock

	cursor *reflect.MapIter // where the last sweep has stopped: of one goroutine
}

func newAccounts() *accounts { return &accounts{byKey: map[string]string{}} }

// written is about how much of the snapshot an account takes.
func written(name, bytes string) int64 { return int64(len(name)+len(bytes)) + 4 }

func (s *accounts) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

func (s *accounts) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// load reads an account, and returns its size; 0 if there is none.
func (s *accounts) load(name string) (a engine.Account, bytes int, err error) {
	s.mu.Lock()
	b := s.byKey[name]
	s.mu.Unlock()
	if b != "" {
		err = a.UnmarshalBinary([]byte(b))
	}
	return a, len(b), err
}

// put replaces accounts, when they are on disk.
func (s *accounts) put(changed ...account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range changed {
		if old := s.byKey[a.name]; old != "" {
			s.bytes -= written(a.name, old)
		}
		s.bytes += written(a.name, a.bytes)
		s.byKey[a.name] = a.bytes
		if s.dirty != nil {
			s.dirty[a.name] = true
		}
	}
	s.most = max(s.most, len(s.byKey))
}

// sweep looks at the next accounts, at most look, and forgets idle ones that no call is
// using. The file forgets them with the next snapshot: an account that comes back from
// it is as idle as before.
func (s *accounts) sweep(look int, using func(name string) bool) {
	seen := s.hindsight()
	for ; look > 0; look-- {
		s.mu.Lock()
		if s.cursor == nil {
			s.cursor = reflect.ValueOf(s.byKey).MapRange()
		}
		if !s.cursor.Next() {
			s.cursor = nil
			s.mu.Unlock()
			return // from the beginning, the next time
		}
		name, b := s.cursor.Key().String(), s.cursor.Value().String()
		s.mu.Unlock()
		if !idle(&seen, b) || using(name) {
			continue
		}
		s.mu.Lock()
		if s.byKey[name] == b {
			delete(s.byKey, name)
			s.bytes -= written(name, b)
		}
		s.mu.Unlock()
	}
}

// idle reports whether an account counts nothing any more.
func idle(seen *engine.IdleClock, bytes string) bool {
	var a engine.Account
	return a.UnmarshalBinary([]byte(bytes)) == nil && seen.Idle(&a)
}

// see notes what the clock says.
func (s *accounts) see(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.See(now)
}

// hindsight returns what it has said.
func (s *accounts) hindsight() engine.IdleClock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// begin begins a snapshot: from now on changes are noted.
func (s *accounts) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = map[string]bool{}
}

// each yields groups of accounts, all that exist since begin. Others may be among
// them, and some may have changed since.
func (s *accounts) each(f func(some []account) error) error {
	some := make([]account, 0, perGroup)
	s.mu.Lock()
	for name, b := range s.byKey { // other goroutines come in between, which range permits
		if some = append(some, account{name, b}); len(some) == perGroup {
			s.mu.Unlock()
			if err := f(some); err != nil {
				return err
			}
			some = some[:0]
			s.mu.Lock()
		}
	}
	s.mu.Unlock()
	return f(some)
}

// perGroup is how many accounts are in one group of a snapshot, and are read under
// one lock.
const perGroup = 256

// changed returns what has changed since begin, or since its last call.
func (s *accounts) changed() []account {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]account, 0, len(s.dirty))
	for name := range s.dirty {
		if b, known := s.byKey[name]; known {
			all = append(all, account{name, b})
		}
	}
	clear(s.dirty)
	return all
}

// waiting is how many changed would return.
func (s *accounts) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty)
}

// end ends a snapshot. The map of what were many more accounts is given back.
func (s *accounts) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = nil
	if s.most < 4096 || len(s.byKey) > s.most/4 {
		return
	}
	few := make(map[string]string, len(s.byKey))
	for name, b := range s.byKey {
		few[name] = b
	}
	s.byKey, s.most, s.cursor = few, len(few), nil
}
