// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// An owner makes the calls of requests.
type owner struct {
	counter exact.Counter
	quick   bool // it waits for nothing: goroutines would cost more than what they do

	mu       sync.Mutex
	policies map[string]*exact.Policy // by what encodePolicy writes
}

// maxPolicies is how many compiled policies an owner keeps. A caller can send more, which are
// then compiled each time, as are those that are written in another way.
const maxPolicies = 1024

// linger is how long what is done waits for what is not, so that most answers are one line.
const linger = time.Millisecond

// answer makes the calls of a request at once, and says what became of each soon after it is
// done, so that one that is slow holds up no other.
func (o *owner) answer(ctx context.Context, q *request, say func(some []verdict, last bool)) {
	var asks []func() verdict
	for i := range q.Calls {
		c := &q.Calls[i]
		ctx, cancel := context.WithTimeout(ctx, min(time.Duration(max(c.Wait, 0))*time.Millisecond, maxWait))
		defer cancel()
		asks = append(asks, o.asks(ctx, q, c)...)
	}
	left := len(asks)
	done := make(chan verdict, left)
	for n, ask := range asks {
		tell := func() {
			v := ask()
			v.N = n
			done <- v
		}
		if o.quick || left == 1 {
			tell()
		} else {
			go tell()
		}
	}
	for some := make([]verdict, 0, left); left > 0; some = some[:0] {
		some = append(some, <-done)
		var end <-chan time.Time
		if len(some) < left && !o.quick {
			end = time.After(linger)
		}
		for over := false; len(some) < left && !over; {
			select {
			case v := <-done:
				some = append(some, v)
			case <-end:
				over = true
			}
		}
		left -= len(some)
		say(some, left == 0)
	}
}

// asks returns what makes a call of a request, one for each of its verdicts: one after the other the calls of a take would have
// the time of one between them. A counter that can take calls in one go merges them again, with calls of other requests.
func (o *owner) asks(ctx context.Context, q *request, c *call) (asks []func() verdict) {
	call, calls, err := o.callOf(q, c)
	ask := func(p *exact.Policy, do func() (exact.Verdict, error)) {
		asks = append(asks, func() verdict { return verdictOf(p, do) })
	}
	switch {
	case err != nil:
		for range c.verdicts() {
			ask(nil, func() (v exact.Verdict, _ error) { return v, err })
		}
	case c.Op == opPeek:
		ask(call.Policy, func() (exact.Verdict, error) { return o.counter.Peek(ctx, call) })
	case c.Op == opRefund:
		ask(nil, func() (v exact.Verdict, err error) { return v, o.refund(ctx, &call, c.Receipt) })
	}
	for i := range calls {
		ask(call.Policy, func() (exact.Verdict, error) { return o.counter.Take(ctx, calls[i]) })
	}
	return asks
}

// callOf reads a call: one for each ID, if it is a take. Each of those must have one, which is
// what makes a request that was recorded worth nothing.
func (o *owner) callOf(q *request, c *call) (is exact.Call, each []exact.Call, err error) {
	key, err := decode(c.Key)
	if err != nil || c.Op != opTake && (len(c.IDs) > 0 || c.Op != opPeek && c.Op != opRefund) || c.Policy < 0 || c.Policy >= len(q.Policies) ||
		c.Ahead > exact.MaxAhead.Microseconds() || c.Pause > exact.MaxPause.Microseconds() { // which may overflow
		return is, nil, errMalformed
	}
	policy, err := o.policy(q.Policies[c.Policy])
	if err != nil {
		return is, nil, err
	}
	is = exact.Call{
		Key: key, Policy: policy, Past: c.Past,
		Ahead: time.Duration(c.Ahead) * time.Microsecond, Pause: time.Duration(c.Pause) * time.Microsecond,
	}
	if err = c.priced(&is); err != nil || c.Op != opTake {
		return is, nil, err
	}
	if len(c.IDs) == 0 {
		return is, nil, errNoID
	}
	each = make([]exact.Call, len(c.IDs))
	for i, id := range c.IDs {
		each[i] = is
		if each[i].ID, err = decode(id); err != nil || each[i].ID == "" {
			return is, nil, errNoID
		}
	}
	return is, each, nil
}

var errNoID = fmt.Errorf("%w: ID must be there", exact.ErrCall)

// policy returns a compiled policy: the same one each time, or calls for it would not be merged.
func (o *owner) policy(raw []byte) (*exact.Policy, error) {
	o.mu.Lock()
	p := o.policies[string(raw)]
	o.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := decodePolicy(raw)
	if err != nil {
		return nil, err
	}
	text := string(encodePolicy(p, time.Time{})) // what a caller wrote may be 128 KB that is read nowhere
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.policies[text]; known != nil {
		return known, nil
	}
	if len(o.policies) >= maxPolicies {
		clear(o.policies)
	}
	o.policies[text] = p
	return p, nil
}

// refund gives back what a receipt says.
func (o *owner) refund(ctx context.Context, call *exact.Call, r *receipt) error {
	if r == nil {
		return exact.ErrNoRefund
	}
	at, err := strconv.ParseInt(r.At, 10, 64)
	if err != nil {
		return exact.ErrNoRefund
	}
	return o.counter.Refund(ctx, exact.Receipt{Key: call.Key, Cost: call.Cost, Costs: call.Costs, Policy: call.Policy, At: time.Unix(0, at), Serial: r.Serial})
}

// verdictOf writes what became of a call; without a policy, whether it failed. That an engine
// panics is an error: in a goroutine of a request it would end the program.
func verdictOf(p *exact.Policy, do func() (exact.Verdict, error)) (w verdict) {
	defer func() {
		if recover() != nil {
			w = verdict{Error: maybeCounted}
		}
	}()
	v, err := do()
	switch {
	case err != nil:
		return verdict{Error: errorOf(err), Wait: v.Wait.Microseconds()}
	case p == nil:
		return verdict{}
	}
	w = verdict{Admitted: v.Admitted, Impossible: v.Impossible, Replayed: v.Replayed, Wait: v.Wait.Microseconds(), Limits: make([]standing, p.Len())}
	for i := range w.Limits {
		l := &v.Limits[i]
		w.Limits[i] = standing{l.Remaining, int64(l.Reset / time.Second), 0}
		if l.Blocked {
			w.Limits[i][2] = 1
		}
	}
	if v.Receipt.Policy != nil {
		w.Receipt, w.Cost = &receipt{v.Receipt.Serial, strconv.FormatInt(v.Receipt.At.UnixNano(), 10)}, v.Receipt.Cost
	}
	return w
}
