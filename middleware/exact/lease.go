package exact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
//     held, and its ID is known to this counter alone, not to others of the engine:
//     do not lease where clients choose IDs.
//
// A block is good in the window it was taken in, by the engine's clock. Policies with
// other limits than [storeless.FixedWindow] and [storeless.SlidingWindow], which have
// windows, go through unleased: in a bucket, what was charged early would have leaked
// out when it is used. Where blocks shrink below two calls, calls go through as well.
//
// A timer runs while keys are in use. Close gives back what is held.
type Leased struct {
	engine Counter
	Leasing

	mu      sync.Mutex
	keys    map[string]*leaseholder
	replies Replies
	back    []Receipt   // to give back when the timer looks
	timer   *time.Timer // nil: nothing to do
	tidying sync.WaitGroup
	closed  bool
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
	if !leasable(call.Policy) {
		return l.engine.Take(ctx, call)
	}
	v, done, size := l.within(&call)
	var err error
	if !done && size > 0 {
		v, done, err = l.ahead(ctx, &call, size)
	}
	if !done {
		v, err = l.through(ctx, &call)
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
func (l *Leased) within(call *Call) (v Verdict, done bool, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.Now(), leaseName(call)
	asked := false
	if call.ID != "" {
		if v, ok := l.replies.Find(now, name, call.ID); ok {
			v.Replayed = true
			return v, true, 0
		}
		_, asked = l.replies.Find(now, "?"+name, call.ID)
	}
	h := l.holder(name, now)
	// What was asked of the engine before may be counted there: ask again, there.
	if !asked && h.has(call, now) {
		v = h.count(call, now)
		l.keep(now, name, call, v)
		return v, true, 0
	}
	l.keep(now, "?"+name, call, Verdict{})
	if asked || l.closed || h.asking || now.Before(h.rest) || h.of == nil || !samePolicy(h.of, call.Policy) {
		return Verdict{}, false, 0
	}
	size = min(l.Block, h.said.Least(call.Policy.Len())/(20*l.Instances))
	size -= size % call.Cost
	if size < 2*call.Cost {
		return Verdict{}, false, 0
	}
	h.asking = true
	return Verdict{}, false, size
}

// lostPause is for how long no block is asked for after one was lost: else an engine
// that answers too late would be drained by blocks that nobody has.
const lostPause = time.Second

// ahead asks for a block, and counts the call within it. It is not done where the
// engine has refused so much: then it may still admit less.
func (l *Leased) ahead(ctx context.Context, call *Call, size int64) (v Verdict, done bool, err error) {
	name, from := leaseName(call), l.Now()
	defer func() { // also if the engine panics
		l.mu.Lock()
		defer l.mu.Unlock()
		if h := l.keys[name]; h != nil {
			h.asking = false
		}
	}()
	block := *call
	block.Cost, block.ID = size, ""
	if v, err = l.engine.Take(ctx, block); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.Now()
		h := l.holder(name, now)
		h.rest = now.Add(lostPause)
		l.failed(name, call, h, err)
		return Verdict{}, true, err
	}
	v, done, back := l.arrived(call, v, from)
	_ = l.giveBack(ctx, back)
	return v, done, nil
}

// arrived takes in what the engine has said of a block, and counts the call within it.
// It returns what is to be given back at once, because the lease was closed meanwhile.
func (l *Leased) arrived(call *Call, v Verdict, from time.Time) (_ Verdict, done bool, back []Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, now := leaseName(call), l.Now()
	h := l.holder(name, now)
	h.hear(v, call.Policy, now)
	if !v.Admitted {
		return Verdict{}, false, nil
	}
	l.giveUp(h)
	h.block = newBlock(v, from)
	if before, ok := l.replies.Find(now, name, call.ID); ok && call.ID != "" { // somebody was faster, with the same ID
		before.Replayed = true
		v = before
	} else {
		v = h.count(call, now) // even if the block has come too late for others
		l.keep(now, name, call, v)
	}
	if l.closed {
		l.giveUp(h)
		back, l.back = l.back, nil
	}
	return v, true, back
}

// through has the engine count one call.
func (l *Leased) through(ctx context.Context, call *Call) (Verdict, error) {
	v, err := l.engine.Take(ctx, *call)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		name := leaseName(call)
		l.failed(name, call, l.holder(name, l.Now()), err)
		return v, err
	}
	said := v
	if v = l.settle(call, v); v.Replayed && said.Admitted && !v.Receipt.same(&said.Receipt) {
		// Counted twice, within a block and without. If it cannot be given back it
		// stays so, which harms nobody else.
		_ = l.engine.Refund(ctx, said.Receipt)
	}
	return v, nil
}

// same reports whether two receipts are of one charge.
func (r *Receipt) same(as *Receipt) bool { return r.Serial == as.Serial && r.At.Equal(as.At) }

// settle takes note of what the engine has said of one call, and returns what becomes
// of it: what was said before, if somebody was faster with the same ID.
func (l *Leased) settle(call *Call, v Verdict) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, name := l.Now(), leaseName(call)
	h := l.holder(name, now)
	h.hear(v, call.Policy, now)
	if before, ok := l.replies.Find(now, name, call.ID); ok && call.ID != "" {
		before.Replayed = true
		return before
	}
	switch {
	case v.Admitted:
		l.keep(now, name, call, v)
		if !v.Replayed {
			v.Limits = h.standings(call.Policy, now)
		}
		return v
	case !v.Replayed && h.has(call, now): // a block has come meanwhile
		v = h.count(call, now)
	case !v.Replayed && !v.Impossible && l.mayComeBack(h, call.Policy, now):
		v.Wait = min(v.Wait, max(time.Second, wholeSeconds(int64(l.Idle))))
	}
	l.keep(now, name, call, v)
	return v
}

// failed forgets a key that an engine has not counted, if nothing is held of it:
// whoever makes up keys must not fill our memory with them.
func (l *Leased) failed(name string, call *Call, h *leaseholder, err error) {
	if !errors.Is(err, ErrNotCounted) {
		return
	}
	if call.ID != "" {
		l.replies.Forget("?"+name, call.ID)
	}
	if h.block == nil && !h.asking {
		delete(l.keys, name)
	}
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
func (l *Leased) holder(name string, now time.Time) *leaseholder {
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

// Peek implements [Counter].
func (l *Leased) Peek(ctx context.Context, call Call) (Verdict, error) {
	v, err := l.engine.Peek(ctx, call)
	if err != nil || !leasable(call.Policy) {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, now := l.keys[leaseName(&call)], l.Now()
	if h == nil {
		return v, nil
	}
	held := h.held(call.Policy, now)
	for i := range call.Policy.Len() {
		v.Limits[i].Remaining += held
	}
	if !v.Admitted && h.has(&call, now) {
		v.Admitted, v.Wait = true, 0
		for i := range call.Policy.Len() {
			v.Limits[i].Blocked = false
		}
	}
	return v, nil
}

// Refund implements [Counter].
func (l *Leased) Refund(ctx context.Context, r Receipt) error {
	if r.Policy == nil || r.Cost < 1 {
		return ErrNoRefund
	}
	if !strings.HasPrefix(r.Serial, leasedSerial) {
		return l.engine.Refund(ctx, r)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[r.Policy.Name()+"\x00"+r.Key]
	if h == nil || h.block == nil || !h.block.good(l.Now()) {
		return ErrNoRefund
	}
	cost, ok := h.block.out[r.Serial]
	if !ok {
		return ErrNoRefund
	}
	delete(h.block.out, r.Serial)
	h.block.left += min(cost, r.Cost)
	return nil
}

// giveUp puts what is left of a block where it is given back. Of a window that is over
// nothing comes back, of longer ones it does.
func (l *Leased) giveUp(h *leaseholder) {
	if h.block != nil && h.block.left > 0 {
		r := h.block.verdict.Receipt
		r.Cost = h.block.left
		l.later(r)
	}
	h.block = nil
}

// later has a receipt given back soon.
func (l *Leased) later(r Receipt) {
	l.back = append(l.back, r)
	l.arm()
}

// arm sets the timer, if it is not set.
func (l *Leased) arm() {
	if l.timer == nil && !l.closed {
		l.tidying.Add(1)
		l.timer = time.AfterFunc(l.Idle, l.tidy)
	}
}

// tidy gives back what nobody has used since it last looked, and looks again later.
func (l *Leased) tidy() {
	defer l.tidying.Done()
	ctx, cancel := context.WithTimeout(context.Background(), l.Idle+time.Second)
	defer cancel()
	_ = l.giveBack(ctx, l.idle(false)) // or it stays counted to the end of its window
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if len(l.keys) > 0 || len(l.back) > 0 {
		l.arm()
	}
}

// idle gives up blocks that are idle, or all, and returns what to give back.
func (l *Leased) idle(all bool) (back []Receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	for name, h := range l.keys {
		switch b := h.block; {
		case b == nil:
		case b.used && b.good(now) && !all:
			b.used = false
			continue
		default:
			l.giveUp(h)
		}
		if all || !h.asking && now.Sub(h.touched) >= l.Idle {
			delete(l.keys, name)
		}
	}
	back, l.back = l.back, nil
	return back
}

// givers is how many refunds are under way at once.
const givers = 16

// giveBack gives back to the engine.
func (l *Leased) giveBack(ctx context.Context, back []Receipt) error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, givers)
	for _, r := range back {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := l.engine.Refund(ctx, r); err != nil && !errors.Is(err, ErrNoRefund) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close gives back what is held, and returns the errors of what it could not give
// back within five seconds. Calls after it go through.
func (l *Leased) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil && l.timer.Stop() {
		l.tidying.Done()
		l.timer = nil
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := l.giveBack(ctx, l.idle(true))
	l.tidying.Wait() // it may have taken some on its way
	return err
}
