// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// leasable reports whether a call asks for what may be in a block: something now, of limits
// that all have windows, or count by the minute.
func leasable(c *exact.Call) bool {
	if c.Past || c.Ahead != 0 || c.Pause != 0 || c.Costs != [storeless.MaxLimits]int64{} {
		return false
	}
	for i := range c.Policy.Len() {
		switch c.Policy.Limit(i).Algorithm {
		case storeless.FixedWindow, storeless.SlidingWindow, storeless.RollingDay:
		default:
			return false
		}
	}
	return true
}

// Take implements [exact.Counter].
func (l *leasing) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	if call.Pause > 0 || call.Costs != [storeless.MaxLimits]int64{} { // no block has any of these
		l.giveUpKey(call.Policy.AccountName(call.Key))
	}
	if !leasable(&call) {
		return l.engine.Take(ctx, call)
	}
	v, done, size := l.within(&call)
	var err error
	if !done && size > 0 {
		v, done, err = l.ahead(ctx, &call, size)
	}
	if !done {
		if v, err = l.through(ctx, &call); err == nil && !v.Admitted && !v.Replayed && !v.Impossible {
			v = l.awaitBlock(ctx, &call, v)
		}
	}
	if v.Replayed && v.Admitted && err == nil { // what it left then is not kept
		if now, err := l.Peek(ctx, call); err == nil {
			v.Limits = now.Limits
		}
	}
	return v, err
}

// within counts a call within a block, if one has room for it. Otherwise it says how
// large a block to ask for; 0: none.
func (l *leasing) within(call *exact.Call) (v exact.Verdict, done bool, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.terms.Now(), call.Policy.AccountName(call.Key)
	if v, ok := l.counted(now, name, call); ok {
		return v, true, 0
	}
	_, asked := l.replies.Find(now, "?"+name, call.ID)
	h := l.holder(now, name)
	// The engine may have counted this call before: ask it again.
	if !asked && h.has(now, call) {
		v = h.count(now, call)
		l.replies.Keep(now, name, call.ID, v)
		return v, true, 0
	}
	// As if it were admitted, because some refusals are forgotten early.
	l.replies.Keep(now, "?"+name, call.ID, exact.Verdict{Verdict: storeless.Verdict{Admitted: true}})
	if asked || l.closed || h.arrives != nil || now.Before(h.rest) || h.of == nil || !samePolicy(h.of, call.Policy) {
		return exact.Verdict{}, false, 0
	}
	size = min(l.terms.Block, least(&h.said, call.Policy.Len())/(20*l.terms.Instances))
	size -= size % call.Cost
	if size < 2*call.Cost {
		return exact.Verdict{}, false, 0
	}
	h.arrives = make(chan struct{})
	return exact.Verdict{}, false, size
}

// least returns the smallest Remaining of the first n limits.
func least(v *exact.Verdict, n int) int64 {
	least := int64(storeless.MaxQuota)
	for i := range v.Limits[:n] {
		least = min(least, v.Limits[i].Remaining)
	}
	return least
}

// lostPause is for how long no block is asked for after one was lost: else an engine that answers
// too late would be drained by lost blocks.
const lostPause = time.Second

// ahead asks for a block, and counts the call within it. It is not done where the engine has
// refused this size: then it may still admit less.
func (l *leasing) ahead(ctx context.Context, call *exact.Call, size int64) (v exact.Verdict, done bool, err error) {
	name, from := call.Policy.AccountName(call.Key), l.terms.Now()
	defer func() { // also if the engine panics
		l.mu.Lock()
		defer l.mu.Unlock()
		if h := l.keys[name]; h != nil {
			h.hasArrived()
		}
	}()
	block := *call
	block.Cost, block.ID = size, ""
	if v, err = l.engine.Take(ctx, block); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.terms.Now()
		h := l.holder(now, name)
		h.rest = now.Add(lostPause)
		l.failed(name, call, h, err)
		return exact.Verdict{}, true, err
	}
	v, done, back := l.arrived(call, v, from)
	_ = l.giveBack(ctx, back)
	return v, done, nil
}

// arrived takes in what the engine has said of a block, and counts the call within it.
// It returns what is to be given back at once, because the lease was closed meanwhile.
func (l *leasing) arrived(call *exact.Call, v exact.Verdict, from time.Time) (_ exact.Verdict, done bool, back []exact.Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, now := call.Policy.AccountName(call.Key), l.terms.Now()
	h := l.holder(now, name)
	h.hear(now, v, call.Policy)
	if !v.Admitted {
		return exact.Verdict{}, false, nil
	}
	l.giveUp(h)
	h.block = newBlock(v, from)
	if before, ok := l.counted(now, name, call); ok { // another call was faster, with the same ID
		v = before
	} else {
		v = h.count(now, call) // even if the block has come too late for others
		l.replies.Keep(now, name, call.ID, v)
	}
	if l.closed {
		l.giveUp(h)
		back, l.back = l.back, nil
	}
	return v, true, back
}

// through has the engine count one call.
func (l *leasing) through(ctx context.Context, call *exact.Call) (exact.Verdict, error) {
	v, err := l.engine.Take(ctx, *call)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		name := call.Policy.AccountName(call.Key)
		l.failed(name, call, l.holder(l.terms.Now(), name), err)
		return v, err
	}
	said := v
	if v = l.settle(call, v); v.Replayed && said.Admitted && !same(&v.Receipt, &said.Receipt) {
		// Counted twice, within a block and without. If it cannot be given back it stays so, which
		// harms no other key.
		_ = l.engine.Refund(ctx, said.Receipt)
	}
	return v, nil
}

// awaitBlock returns what becomes of a call that the engine has refused with v: a block that the engine has counted before, and
// that is on its way or has just arrived, may have room for it. A call whose context has ended stays refused: its caller may have
// asked again.
func (l *leasing) awaitBlock(ctx context.Context, call *exact.Call, v exact.Verdict) exact.Verdict {
	name := call.Policy.AccountName(call.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[name]
	if h == nil {
		return v
	}
	if arrives := h.arrives; arrives != nil {
		l.mu.Unlock()
		select {
		case <-arrives:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	now := l.terms.Now()
	if before, ok := l.counted(now, name, call); ok && before.Admitted {
		return before
	}
	if ctx.Err() == nil && h.has(now, call) {
		v = h.count(now, call)
		l.replies.Keep(now, name, call.ID, v)
	}
	return v
}

// counted returns what became of a call with the same ID, if there was one.
func (l *leasing) counted(now time.Time, name string, call *exact.Call) (before exact.Verdict, ok bool) {
	before, ok = l.replies.Find(now, name, call.ID)
	before.Replayed = ok
	return before, ok
}

// same reports whether two receipts are of one charge.
func same(r, as *exact.Receipt) bool {
	return r.Serial == as.Serial && r.At.Equal(as.At)
}

// settle takes note of what the engine has said of one call, and returns what becomes of it: what
// was said before, if another call was faster with the same ID.
func (l *leasing) settle(call *exact.Call, v exact.Verdict) exact.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.terms.Now(), call.Policy.AccountName(call.Key)
	h := l.holder(now, name)
	h.hear(now, v, call.Policy)
	if before, ok := l.counted(now, name, call); ok {
		return before
	}
	switch {
	case v.Admitted:
		l.replies.Keep(now, name, call.ID, v)
		if !v.Replayed {
			v.Limits = h.statuses(now, call.Policy)
		}
		return v
	case !v.Replayed && h.has(now, call): // a block has come meanwhile
		v = h.count(now, call)
	case !v.Replayed && !v.Impossible && l.mayComeBack(now, h, call.Policy):
		v.Wait = min(v.Wait, max(time.Second, (l.terms.Idle+time.Second-1).Truncate(time.Second)))
	}
	l.replies.Keep(now, name, call.ID, v)
	return v
}

// failed forgets a key that an engine has not counted, if nothing is held of it:
// a client that invents keys must not fill our memory with them.
func (l *leasing) failed(name string, call *exact.Call, h *leaseholder, err error) {
	if !errors.Is(err, exact.ErrNotCounted) {
		return
	}
	l.replies.Forget("?"+name, call.ID)
	if h.block == nil && h.arrives == nil {
		delete(l.keys, name)
	}
}

// mayComeBack reports whether a block is held somewhere, or on its way, and a part of it may come back.
func (l *leasing) mayComeBack(now time.Time, h *leaseholder, p *exact.Policy) bool {
	return h.arrives != nil || h.held(now, p) > 0 || l.terms.Instances > 1 && p.Plan().Tokens.Capacity()/(20*l.terms.Instances) >= 2
}

// holder returns what is held of a key.
func (l *leasing) holder(now time.Time, name string) *leaseholder {
	h := l.keys[name]
	if h == nil {
		h = new(leaseholder)
		if l.closed {
			return h
		}
		l.keys[name] = h
		l.arm()
	}
	h.touched = now
	return h
}

// Peek implements [exact.Counter].
func (l *leasing) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := l.engine.Peek(ctx, call)
	if err != nil || !leasable(&call) {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, now := l.keys[call.Policy.AccountName(call.Key)], l.terms.Now()
	if h == nil {
		return v, nil
	}
	held := h.held(now, call.Policy)
	for i := range call.Policy.Len() {
		v.Limits[i].Remaining += held
	}
	if !v.Admitted && h.has(now, &call) {
		v.Admitted, v.Wait = true, 0
		for i := range call.Policy.Len() {
			v.Limits[i].Blocked = false
		}
	}
	return v, nil
}
