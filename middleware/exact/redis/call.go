// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
)

// Take implements [exact.Counter].
func (e *batcher) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	v, err := e.TakeAll(ctx, []exact.Call{call})
	if err != nil {
		return exact.Verdict{}, err
	}
	return v[0], nil
}

// TakeAll implements [engine.Batcher].
func (e *batcher) TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error) {
	for i := range calls {
		if err := calls[i].Check(ctx); err != nil {
			return nil, err
		}
	}
	return e.take(ctx, calls, true)
}

// Peek implements [exact.Counter].
func (e *batcher) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	call.ID = ""
	v, err := e.take(ctx, []exact.Call{call}, false)
	if err != nil {
		return exact.Verdict{}, err
	}
	return v[0], nil
}

func (e *batcher) take(ctx context.Context, calls []exact.Call, charge bool) ([]exact.Verdict, error) {
	call := &calls[0]
	p, tag := call.Policy, e.tag(call.Policy, call.Key)
	keys := trailKeys(make([]string, 0, 3+p.Len()), tag, p)
	args := make([]string, 1, 1+len(calls))
	named := false
	for i := range calls {
		named = named || calls[i].ID != ""
		args = append(args, hashed(calls[i].ID))
	}
	if named {
		keys = append(keys, tag+":s:0", tag+":s:1")
	}
	clock := &e.node(tag).clock
	deadline, now := int64(0), time.Now()
	if end, ok := ctx.Deadline(); ok {
		deadline = clock.at(now, end)
	}
	at := now // as nearly as is known
	if us := clock.at(now, now); us > 0 {
		at = time.UnixMicro(us)
	}
	for booked := call.Ahead > 0; ; {
		said, err := e.runTake(ctx, p, keys, args, call, charge, booked, deadline, at, clock)
		switch {
		case err != nil:
			return nil, err
		case said == onlyOther && !booked:
			booked = true
		// If a node says too late before the deadline, its clock was set, or it is another
		// node: the call is retried without a deadline.
		case len(said) == onlyTime && deadline > 0:
			deadline = 0
		case len(said) == otherTime && ctx.Err() == nil:
			words := reply{rest: said[onlyTime:]}
			at = time.UnixMicro(words.double())
		default:
			return e.tell(calls, charge, booked, said)
		}
	}
}

// onlyOther is a plain script's answer if a call is booked: it has done nothing, and the other
// script must run.
const onlyOther = ""

// runTake runs take.lua, by a deadline in the server's time.
func (e *batcher) runTake(ctx context.Context, p *exact.Policy, keys, args []string, call *exact.Call, charge, booked bool, deadline int64, at time.Time, clock *serverClock) (string, error) {
	each, serials := costsOf(p, call.Cost, call.Costs)
	packed := pack(make([]byte, 0, 256), call.Cost, serials)
	packed = append(packed, flag(charge), flag(call.Past || call.Cost == 0))
	pause := (call.Pause + time.Microsecond - 1).Microseconds()
	packed = pack(packed, pause, deadline, hold(p))
	if booked {
		packed = pack(packed, call.Ahead.Microseconds())
	}
	args[0] = string(numbers(packed, p, &each, at))
	return e.run(ctx, &job{script: e.scripts.of(p, booked).take, keys: keys, args: args, clock: clock, again: !charge || !slices.Contains(args, "")})
}

// Refund implements [exact.Counter].
func (e *batcher) Refund(ctx context.Context, r exact.Receipt) error {
	is, ok := receipt.Parse(&r)
	if !ok {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	tag, at := e.tag(r.Policy, r.Key), r.At.UnixMicro()
	keys := trailKeys(nil, tag, r.Policy)
	each, serials := costsOf(r.Policy, r.Cost, r.Costs)
	packed := numbers(pack(nil, int64(is.Number), at, r.Cost, serials, hold(r.Policy)), r.Policy, &each, r.At)
	args, booked := []string{string(packed), ""}, is.From != nil
	if booked {
		args[1] = string(pack(nil, slices.Concat([]int64{is.Cost}, is.From, is.Each)...))
	}
	said, err := e.run(ctx, &job{script: e.scripts.of(r.Policy, booked).refund, keys: keys, args: args})
	if err == nil && said == onlyOther && !booked {
		said, err = e.run(ctx, &job{script: e.scripts.of(r.Policy, true).refund, keys: keys, args: args})
	}
	switch {
	case err == nil && said == "2":
		return exact.ErrLateRefund
	case err == nil && said != "1":
		return exact.ErrNoRefund
	}
	return err
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// hashed is an ID as scripts know it: all have one length.
func hashed(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return string(sum[:16])
}
