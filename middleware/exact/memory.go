package exact

import (
	"context"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"time"
)

// Memory is a [Counter] in the memory of one process: exact for all that share
// it, and empty when the process ends. It is for programs of one instance, and for
// tests. Another process has another.
//
// It has room for a fixed number of live keys. A key is free for another when
// nothing of it counts any more. Where none is free, a call for a new one fails
// with [ErrFull]: to admit it uncounted would be no limit, and to evict another
// would give that one a fresh quota.
//
// No lock is held across keys, but for those of one of its 64 shards, for the time
// of one decision. There is no goroutine: who needs room looks for it.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [memoryShards]shard
}

const (
	memoryShards = 64

	// DefaultKeys is how many live keys a Memory has room for by default. One
	// takes some 400 bytes once it is used; a call with an ID some 150 more, for
	// [IDLife] to twice that.
	DefaultKeys = 1 << 18
)

// A shard is the keys that one lock guards.
type shard struct {
	mu       sync.Mutex
	accounts map[string]*account
	most     int
	swept    int64 // Unix second of the last search for free keys

	// The calls of the last IDLife and of the one before, by key and ID.
	young, old map[string]answered
	turned     time.Time
}

// answered is what became of a call that may be repeated.
type answered struct {
	refusal *Verdict // nil: it was admitted
	receipt Receipt
}

// NewMemory returns a memory for so many live keys, [DefaultKeys] if 0, by the
// given clock, time.Now if nil. It panics if keys is negative.
func NewMemory(keys int, now func() time.Time) *Memory {
	if keys < 0 {
		panic("exact: a memory of fewer than no keys")
	}
	if keys == 0 {
		keys = DefaultKeys
	}
	if now == nil {
		now = time.Now
	}
	m := &Memory{now: now, seed: maphash.MakeSeed()}
	for i := range m.shards {
		s := &m.shards[i]
		s.accounts, s.young, s.old = make(map[string]*account), make(map[string]answered), make(map[string]answered)
		// Keys fall into shards at random: an even share would be full too early.
		s.most = keys/memoryShards + keys/memoryShards/4 + 8
	}
	return m
}

// Take implements [Counter].
func (m *Memory) Take(ctx context.Context, call Call) (Verdict, error) {
	if err := begin(ctx, &call); err != nil {
		return Verdict{}, err
	}
	s, key := m.shard(call.Policy, call.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now() // under the lock: who decides later has no earlier time
	a, known := s.accounts[key]
	if !known {
		a = new(account)
	}
	if call.ID != "" {
		s.turn(now)
		if then, ok := s.answered(key + "\x00" + call.ID); ok {
			return a.replay(&call, now, then), nil
		}
	}
	if !known && !s.room(now) {
		return Verdict{}, ErrFull
	}
	v, then := a.decide(&call, now)
	if v.Admitted && !known {
		s.accounts[key] = a
	}
	if call.ID != "" {
		s.young[key+"\x00"+call.ID] = then
	}
	return v, nil
}

// Peek implements [Counter].
func (m *Memory) Peek(ctx context.Context, call Call) (Verdict, error) {
	if err := begin(ctx, &call); err != nil {
		return Verdict{}, err
	}
	s, key := m.shard(call.Policy, call.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[key]
	if !known {
		a = new(account)
	}
	return Verdict{Verdict: a.peek(call.Policy, m.now(), call.Cost)}, nil
}

// Refund implements [Counter].
func (m *Memory) Refund(ctx context.Context, r Receipt) error {
	serial, err := strconv.ParseUint(r.Serial, 36, 64)
	if err != nil || r.Policy == nil || r.Cost < 1 {
		return ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	s, key := m.shard(r.Policy, r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.accounts[key]
	if !known || !a.refund(r.Policy, m.now(), r.At, r.Cost, serial) {
		return ErrNoRefund
	}
	return nil
}

// begin says why a call cannot even begin.
func begin(ctx context.Context, call *Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	return nil
}

// shard returns where a key is counted, and its name there: policies of different
// names count apart.
func (m *Memory) shard(p *Policy, key string) (*shard, string) {
	name := p.Name() + "\x00" + key
	return &m.shards[maphash.String(m.seed, name)%memoryShards], name
}

// room reports whether there is room for another key, and makes some of what
// counts no more. It looks at most once a second, so that a full memory does not
// cost everybody a search.
func (s *shard) room(now time.Time) bool {
	if len(s.accounts) < s.most {
		return true
	}
	if second := now.Unix(); second != s.swept {
		s.swept = second
		for key, a := range s.accounts {
			if a.idle(now) {
				delete(s.accounts, key)
			}
		}
	}
	return len(s.accounts) < s.most
}

// turn drops the calls that need not be remembered any more. A clock that steps
// back keeps them, until it is there again.
func (s *shard) turn(now time.Time) {
	switch passed := now.Sub(s.turned); {
	case passed >= 2*IDLife:
		clear(s.young)
		clear(s.old)
		s.turned = now
	case passed >= IDLife:
		s.young, s.old = s.old, s.young
		clear(s.young)
		s.turned = now
	}
}

func (s *shard) answered(id string) (answered, bool) {
	if a, ok := s.young[id]; ok {
		return a, true
	}
	a, ok := s.old[id]
	return a, ok
}

// decide takes a call, and says what is to be remembered of it.
func (a *account) decide(call *Call, now time.Time) (Verdict, answered) {
	v, at, serial := a.take(call.Policy, now, call.Cost)
	verdict := Verdict{Verdict: v}
	if serial == 0 {
		refusal := verdict
		return verdict, answered{refusal: &refusal}
	}
	verdict.Receipt = Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: at, Serial: strconv.FormatUint(serial, 36)}
	return verdict, answered{receipt: verdict.Receipt}
}

// replay returns the verdict of an earlier call: what it said then and, where it
// was admitted, how the limits stand now.
func (a *account) replay(call *Call, now time.Time, then answered) Verdict {
	if then.refusal != nil {
		v := *then.refusal
		v.Replayed = true
		return v
	}
	return Verdict{Verdict: a.peek(call.Policy, now, 0), Replayed: true, Receipt: then.receipt}
}
