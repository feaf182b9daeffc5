package exact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// Leasing says how much a [Leased] counter takes ahead. It is plain data.
type Leasing struct {
	// Block is the most that is taken ahead for a key. Default: 64. Permitted: 2
	// to 65536.
	Block int64

	// Instances is how many of them share the engine: a block is at most the
	// twentieth part of an even share of what is left. Default: 1.
	Instances int64

	// Idle is how long a block may lie unused before it is given back. Default:
	// 1 s. Permitted: from 10 ms to 1 h.
	Idle time.Duration

	// Now is the clock, [time.Now] by default. It need not agree with the engine's.
	Now func() time.Time
}

// A Leased counter takes blocks from an engine and counts within them by itself, so
// that most calls make no round trip. It never admits more than the engine would.
// What it costs, and why it is a choice:
//
//   - Near the limit calls may be refused too early, while others hold blocks: at
//     most a twentieth of the limit, until the blocks are given back. A refusal
//     says to come again after Idle, so that what comes back is found.
//   - What a process holds when it is killed, or a block whose answer is lost, stays
//     counted to the end of its window.
//   - How the limits stand is what the engine said last, less what was counted since.
//   - A call that was counted within a block can be refunded only while the block is
//     held.
//
// A block is good in the window it was taken in, by the engine's clock. Policies with
// other limits than [storeless.FixedWindow] and [storeless.SlidingWindow], which have
// windows, go through unleased: in a bucket, what was charged early would have leaked
// out when it is used. Where blocks shrink below 2, calls go through as well.
//
// A timer runs while keys are in use. Close gives back what is held.
type Leased struct {
	engine Counter
	Leasing

	mu      sync.Mutex
	keys    map[string]*leaseholder
	replies Replies
	timer   *time.Timer // nil: no blocks
	closed  atomic.Bool
}

// Lease returns a counter that takes blocks from the engine. It reports all problems
// of l, each a [storeless.ConfigError].
func Lease(engine Counter, l Leasing) (*Leased, error) {
	if l.Block == 0 {
		l.Block = 64
	}
	if l.Instances == 0 {
		l.Instances = 1
	}
	if l.Idle == 0 {
		l.Idle = time.Second
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	var errs []error
	if l.Block < 2 || l.Block > 65536 {
		errs = append(errs, &storeless.ConfigError{Field: "Block", Problem: fmt.Sprintf("must be from 2 to 65536, or 0 for 64, not %d", l.Block)})
	}
	if l.Instances < 1 || l.Instances > 1<<20 {
		errs = append(errs, &storeless.ConfigError{Field: "Instances", Problem: fmt.Sprintf("must be from 1 to 1048576, or 0 for 1, not %d", l.Instances)})
	}
	if l.Idle < 10*time.Millisecond || l.Idle > time.Hour {
		errs = append(errs, &storeless.ConfigError{Field: "Idle", Problem: fmt.Sprintf("must be from 10ms to 1h, or 0 for 1s, not %s", l.Idle)})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Leased{engine: engine, Leasing: l, keys: make(map[string]*leaseholder)}, nil
}

// leasable reports whether all limits have windows.
func leasable(p *Policy) bool {
	for i := range p.limits {
		if a := p.limits[i].Algorithm; a != storeless.FixedWindow && a != storeless.SlidingWindow {
			return false
		}
	}
	return true
}

// Take implements [Counter].
func (l *Leased) Take(ctx context.Context, call Call) (Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return Verdict{}, err
	}
	if !leasable(call.Policy) || l.closed.Load() {
		return l.engine.Take(ctx, call)
	}
	v, held, size, heard := l.within(&call)
	if held && v.Replayed && v.Admitted {
		if now, err := l.Peek(ctx, call); err == nil {
			v.Limits = now.Limits
		}
	}
	if held {
		return v, nil
	}
	from := l.Now()
	if size > 0 {
		ahead := call
		ahead.Cost, ahead.ID = size, ""
		v, err := l.engine.Take(ctx, ahead)
		if v, done := l.arrived(&call, from, heard, v, err); done {
			return v, err
		}
	}
	v, err := l.engine.Take(ctx, call)
	if err != nil {
		return v, err
	}
	return l.direct(ctx, &call, heard, v), nil
}

// within counts a call within a block, if one has room for it. Otherwise it says how
// large a block to ask for, 0 for none, and how often the engine was heard so far.
func (l *Leased) within(call *Call) (v Verdict, held bool, size, heard int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.Now(), leaseName(call)
	asked := false
	if call.ID != "" {
		if v, ok := l.replies.Find(now, name, call.ID); ok {
			v.Replayed = true
			return v, true, 0, 0
		}
		_, asked = l.replies.Find(now, "?"+name, call.ID)
	}
	h := l.holder(call, now)
	// What was asked of the engine before may be counted there: ask again, there.
	if !asked {
		if v, held := h.count(call, now); held {
			l.keep(now, name, call, v)
			return v, true, 0, 0
		}
	}
	if call.ID != "" {
		l.replies.Keep(now, "?"+name, call.ID, Verdict{})
	}
	size = min(l.Block, h.said.Least(call.Policy.Len())/(20*l.Instances))
	if asked || h.asking || size < 2*call.Cost {
		return Verdict{}, false, 0, h.heard
	}
	h.asking = true
	return Verdict{}, false, size, h.heard
}

// arrived takes in a block, and counts the call within it. It reports false where
// the engine has refused so much: then it may still admit less.
func (l *Leased) arrived(call *Call, from time.Time, heard int64, v Verdict, err error) (Verdict, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.Now(), leaseName(call)
	h := l.holder(call, now)
	h.asking = false
	if err != nil {
		return Verdict{}, true
	}
	h.hear(heard, v, now)
	if !v.Admitted {
		return Verdict{}, false
	}
	// What is used up can be refunded as long as nothing has taken its place.
	h.blocks = slices.DeleteFunc(h.blocks, func(b *block) bool { return b.left == 0 || !b.good(now) })
	h.blocks = append(h.blocks, &block{verdict: v, left: v.Receipt.Cost, from: from, until: from.Add(untilWindowEnds(&v.Receipt)), out: make(map[string]int64)})
	if call.ID != "" {
		if v, ok := l.replies.Find(now, name, call.ID); ok { // somebody was faster, with the same ID
			v.Replayed = true
			return v, true
		}
	}
	v, held := h.count(call, now)
	if held {
		l.keep(now, name, call, v)
	}
	return v, held
}

// direct takes note of what the engine has said of one call.
func (l *Leased) direct(ctx context.Context, call *Call, heard int64, v Verdict) Verdict {
	l.mu.Lock()
	now, name := l.Now(), leaseName(call)
	h := l.holder(call, now)
	h.hear(heard, v, now)
	if call.ID != "" {
		if before, ok := l.replies.Find(now, name, call.ID); ok {
			l.mu.Unlock()
			if v.Admitted && before.Receipt != v.Receipt {
				l.giveBack(ctx, v.Receipt) // counted twice; else it stays so, which harms nobody else
			}
			before.Replayed = true
			return before
		}
	}
	defer l.mu.Unlock()
	if !v.Admitted && !v.Replayed {
		// A block may have come meanwhile.
		if counted, held := h.count(call, now); held {
			v = counted
		} else if l.mayComeBack(h, call.Policy, now) {
			v.Wait = min(v.Wait, max(time.Second, wholeSeconds(int64(l.Idle))))
		}
	}
	l.keep(now, name, call, v)
	if v.Admitted {
		v.Limits = h.standings(call.Policy, now)
	}
	return v
}

// mayComeBack reports whether somebody may hold a block that was refused to another.
func (l *Leased) mayComeBack(h *leaseholder, p *Policy, now time.Time) bool {
	return h.held(p, now) > 0 || l.Instances > 1 && p.tokens.Capacity()/(20*l.Instances) >= 2
}

func (l *Leased) keep(now time.Time, name string, call *Call, v Verdict) {
	if call.ID != "" {
		l.replies.Keep(now, name, call.ID, v)
	}
}

// leaseName is under what a key is held: policies of different names count apart.
func leaseName(call *Call) string { return call.Policy.Name() + "\x00" + call.Key }

// holder returns what is held of a key.
func (l *Leased) holder(call *Call, now time.Time) *leaseholder {
	name := leaseName(call)
	h := l.keys[name]
	if h == nil {
		h = new(leaseholder)
		l.keys[name] = h
	}
	h.touched = now
	if l.timer == nil {
		l.timer = time.AfterFunc(l.Idle, l.tidy)
	}
	return h
}

// Peek implements [Counter].
func (l *Leased) Peek(ctx context.Context, call Call) (Verdict, error) {
	v, err := l.engine.Peek(ctx, call)
	if err != nil || !leasable(call.Policy) {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.keys[leaseName(&call)]; h != nil {
		held := h.held(call.Policy, l.Now())
		for i := range call.Policy.Len() {
			v.Limits[i].Remaining += held
		}
		if held >= call.Cost && !v.Admitted {
			v.Admitted, v.Wait = true, 0
			for i := range call.Policy.Len() {
				v.Limits[i].Blocked = false
			}
		}
	}
	return v, nil
}

// Refund implements [Counter].
func (l *Leased) Refund(ctx context.Context, r Receipt) error {
	if !strings.Contains(r.Serial, ".") {
		return l.engine.Refund(ctx, r)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[r.Policy.Name()+"\x00"+r.Key]
	if h == nil {
		return ErrNoRefund
	}
	for _, b := range h.blocks {
		if cost, ok := b.out[r.Serial]; ok && b.good(l.Now()) {
			delete(b.out, r.Serial)
			b.left += max(0, min(cost, r.Cost))
			return nil
		}
	}
	return ErrNoRefund
}

// tidy gives back what nobody has used since it last looked.
func (l *Leased) tidy() {
	for _, r := range l.idle(false) {
		ctx, cancel := context.WithTimeout(context.Background(), l.Idle+time.Second)
		l.giveBack(ctx, r) // or it stays counted to the end of its window
		cancel()
	}
}

// giveBack gives back to the engine.
func (l *Leased) giveBack(ctx context.Context, r Receipt) {
	if l.engine.Refund(ctx, r) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.keys[r.Policy.Name()+"\x00"+r.Key]; h != nil {
		for i := range r.Policy.Len() {
			h.said.Limits[i].Remaining += r.Cost
		}
	}
}

// idle drops blocks that are idle, or all, and returns what to give back for them.
func (l *Leased) idle(all bool) (back []Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	now := l.Now()
	for name, h := range l.keys {
		var keep []*block
		for _, b := range h.blocks {
			switch {
			case !b.good(now):
			case b.used && !all:
				b.used = false
				keep = append(keep, b)
			case b.left > 0:
				r := b.verdict.Receipt
				r.Cost = b.left
				back = append(back, r)
			}
		}
		h.blocks = keep
		if len(keep) == 0 && (all || !h.asking && now.Sub(h.touched) >= l.Idle) {
			delete(l.keys, name)
		}
	}
	l.timer = nil
	if len(l.keys) > 0 {
		l.timer = time.AfterFunc(l.Idle, l.tidy)
	}
	return back
}

// Close gives back what is held, and returns the errors of what it could not give
// back within five seconds. Calls after it go through.
func (l *Leased) Close() error {
	l.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, r := range l.idle(true) {
		if err := l.engine.Refund(ctx, r); err != nil && !errors.Is(err, ErrNoRefund) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
