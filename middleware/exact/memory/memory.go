// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// counter implements [engine.Archive] in memory. A decision locks one of its 64
// shards.
type counter struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [memoryShards]shard
}

const (
	memoryShards = 64
	defaultKeys  = 1 << 18
)

// A shard is the keys that one lock guards.
type shard struct {
	mu       sync.Mutex
	accounts map[string]*engine.Account
	most     int
	swept    int64     // Unix second of the last search for free keys
	frees    time.Time // when one will be, by that search
	replies  engine.Idempotency
	seen     engine.IdleClock
}

// New returns a counter in the memory of one process: exact within the process,
// and lost when it ends. It is for programs of one instance, and for tests.
//
// It has room for at least keys live keys (default 262,144), by the clock now
// (default time.Now). There is room for a quarter and 512 more, because keys
// fall into shards at random. A key expires when nothing of it counts any more,
// and has not for a while of the clock; see [engine.IdleClock]. If it is full,
// a call for a new key fails with [exact.ErrFull], and the verdict says when a
// key will expire. To admit the call uncounted would be no limit, and to evict
// another key would give that one a fresh quota. So use it for keys and
// principals: an attacker can have 262,144 addresses. There is no goroutine: a
// call that needs room looks for it.
//
// A used key takes some 300 bytes; an admitted call with an ID some 200 more, for one to two
// [exact.IDLife]. Refusals with IDs take at most 30 MB in all. New panics if keys is
// negative.
func New(keys int, now func() time.Time) engine.Archive {
	if keys < 0 {
		panic("memory: room for fewer than no keys")
	}
	keys = cmp.Or(keys, defaultKeys)
	if now == nil {
		now = time.Now
	}
	m := &counter{now: now, seed: maphash.MakeSeed()}
	for i := range m.shards {
		s := &m.shards[i]
		s.accounts = make(map[string]*engine.Account)
		// Keys fall into shards at random: an even share would be full too early.
		s.most = keys/memoryShards + keys/memoryShards/4 + 8
	}
	return m
}

// Take implements [exact.Counter].
func (m *counter) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	s, key := m.shard(call.Policy, call.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now() // under the lock: a later decision has no earlier time
	s.seen.See(now)
	a, known := s.accounts[key]
	if !known {
		a = new(engine.Account)
	}
	if v, ok := s.replies.Find(now, key, call.ID); ok {
		return a.Replay(now, v, &call), nil
	}
	if !known && !s.room(now) {
		var v exact.Verdict
		v.Wait = (max(1, s.frees.Sub(now)) + time.Second - 1).Truncate(time.Second)
		return v, exact.ErrFull
	}
	id := call.ID
	call.ID = "" // which replies remember for less
	v := a.Take(now, &call)
	if v.Admitted && !known {
		s.accounts[key] = a
	}
	s.replies.Keep(now, key, id, v)
	return v, nil
}

// Peek implements [exact.Counter].
func (m *counter) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	s, key := m.shard(call.Policy, call.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[key]
	if !known {
		a = new(engine.Account)
	}
	return a.Peek(m.now(), &call), nil
}

// Refund implements [exact.Counter].
func (m *counter) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	s, key := m.shard(r.Policy, r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[key]
	if !known {
		return exact.ErrNoRefund
	}
	return a.Refund(m.now(), &r)
}

// InProcess says that no call waits for I/O: package remote asks by this name.
func (*counter) InProcess() {}

// shard returns where a key is counted, and its name there: policies of different
// names count apart.
func (m *counter) shard(p *exact.Policy, key string) (*shard, string) {
	name := p.AccountName(key)
	return m.shardOf(name), name
}

func (m *counter) shardOf(name string) *shard {
	return &m.shards[maphash.String(m.seed, name)%memoryShards]
}

// room reports whether there is room for another key, and makes some of what counts no more. It
// looks at most once a second, so that a full memory does not cost every call a search.
func (s *shard) room(now time.Time) bool {
	if len(s.accounts) < s.most {
		return true
	}
	if second := now.Unix(); second != s.swept {
		s.swept, s.frees = second, time.Time{}
		for key, a := range s.accounts {
			if s.seen.Idle(a) {
				delete(s.accounts, key)
			} else if at := s.seen.Frees(a); s.frees.IsZero() || at.Before(s.frees) {
				s.frees = at
			}
		}
	}
	return len(s.accounts) < s.most
}
