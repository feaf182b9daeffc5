// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// An owner serves a counter.
type owner struct {
	counter exact.Counter
	keys    ring
	now     func() time.Time
	began   int64 // Unix ms

	mu       sync.Mutex
	policies map[string]*exact.Policy // by their bytes
}

// maxPolicies is how many compiled policies an owner keeps. A caller can send more, which are
// then compiled each time.
const maxPolicies = 1024

// Serve returns a handler that lets [Open] call a counter. Only those are answered who have
// a secret. It reports all problems of cfg, each a [storeless.ConfigError].
func Serve(counter exact.Counter, cfg Config) (http.Handler, error) {
	errs := cfg.check()
	if counter == nil {
		errs = append(errs, errNoCounter)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	now := cfg.clock()
	return &owner{counter: counter, keys: newRing(cfg.Secrets), now: now, began: now().UnixMilli(), policies: make(map[string]*exact.Policy)}, nil
}

// Format writes no more than where the handler is from, so that no log of it shows its keys.
func (o *owner) Format(f fmt.State, _ rune) { fmt.Fprint(f, "remote.Serve") }

// ServeHTTP implements [http.Handler].
func (o *owner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a counter is asked by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "the call is too long, or was cut", http.StatusBadRequest)
		return
	}
	sum := r.Header.Get(macField)
	if !o.keys.verifies(requestLabel, "", body, sum) {
		http.Error(w, "the call is not signed with a secret of this counter", http.StatusUnauthorized)
		return
	}
	now := o.now()
	a := o.answer(r.Context(), now, body)
	a.At = now.UnixMilli()
	b, err := json.Marshal(a)
	if err != nil {
		panic(err) // strings and integers
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	h.Set(macField, o.keys.sign(answerLabel, sum, b))
	_, _ = w.Write(b) // the caller is gone, or not
}

// answer does what a request asks for. It is by one who has a secret.
func (o *owner) answer(ctx context.Context, now time.Time, body []byte) answer {
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return answer{Error: malformedError}
	}
	if off := now.UnixMilli() - q.At; off > skew.Milliseconds() || off < -skew.Milliseconds() {
		return answer{Error: staleError}
	}
	if q.At < o.began && o.began <= now.UnixMilli() {
		// A counter may know IDs for no longer than its process lives, and what was recorded
		// before it was started again would be charged again. A caller whose clock is behind
		// learns the time from this answer. Where the clock has stepped back behind the
		// beginning, that says nothing: it would be an outage for as long as it was ahead.
		return answer{Error: staleError}
	}
	call, err := o.callOf(&q)
	switch {
	case errors.Is(err, errAlgorithm):
		return answer{Error: algorithmError}
	case err != nil:
		return answer{Error: malformedError}
	}
	wait := min(time.Duration(max(q.Wait, 0))*time.Millisecond, maxWait)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var verdicts []exact.Verdict
	switch q.Op {
	case "take":
		verdicts, err = o.take(ctx, call, q.IDs)
	case "peek":
		verdicts = make([]exact.Verdict, 1)
		verdicts[0], err = o.counter.Peek(ctx, call)
	case "refund":
		err = o.refund(ctx, call, q.Receipt)
	default:
		return answer{Error: malformedError}
	}
	if err != nil {
		return answer{Error: errorOf(err)}
	}
	var a answer
	for i := range verdicts {
		a.Verdicts = append(a.Verdicts, verdictOf(&verdicts[i], call.Policy))
	}
	return a
}

var errTooFar = errors.New("remote: a time that no call may have") // it may overflow

// callOf returns the call of a request, without its IDs.
func (o *owner) callOf(q *request) (call exact.Call, err error) {
	key, err := decode(q.Key)
	if err != nil {
		return call, err
	}
	policy, err := o.policy(q.Policy)
	if err != nil {
		return call, err
	}
	if q.Ahead > exact.MaxAhead.Microseconds() || q.Pause > exact.MaxPause.Microseconds() {
		return call, errTooFar
	}
	return exact.Call{
		Key: key, Cost: q.Cost, Policy: policy, Past: q.Past,
		Ahead: time.Duration(q.Ahead) * time.Microsecond, Pause: time.Duration(q.Pause) * time.Microsecond,
	}, nil
}

// policy returns a compiled policy.
func (o *owner) policy(raw []byte) (*exact.Policy, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.policies[string(raw)]; p != nil {
		return p, nil
	}
	p, err := decodePolicy(raw)
	if err != nil {
		return nil, err
	}
	if len(o.policies) >= maxPolicies {
		clear(o.policies)
	}
	o.policies[string(raw)] = p
	return p, nil
}

// take takes the calls of a request, in one go if the counter can. Each must have an ID: that
// is what makes a request that was recorded worth nothing.
func (o *owner) take(ctx context.Context, call exact.Call, ids []string) ([]exact.Verdict, error) {
	if len(ids) < 1 || len(ids) > maxCalls {
		return nil, &exact.CallError{Field: "ID", Problem: "must be 1 to 1024"}
	}
	calls := make([]exact.Call, len(ids))
	for i, id := range ids {
		id, err := decode(id)
		if err != nil || id == "" {
			return nil, &exact.CallError{Field: "ID", Problem: "must be there"}
		}
		calls[i] = call
		calls[i].ID = id
	}
	if b, ok := o.counter.(exact.Batcher); ok && len(calls) > 1 {
		return b.TakeAll(ctx, calls)
	}
	verdicts := make([]exact.Verdict, len(calls))
	for i := range calls {
		var err error
		if verdicts[i], err = o.counter.Take(ctx, calls[i]); err != nil {
			if i > 0 && errors.Is(err, exact.ErrNotCounted) {
				err = exact.ErrMaybeCounted // those before it were
			}
			return nil, err
		}
	}
	return verdicts, nil
}

// refund gives back what a receipt says.
func (o *owner) refund(ctx context.Context, call exact.Call, r *receipt) error {
	if r == nil {
		return exact.ErrNoRefund
	}
	at, err := strconv.ParseInt(r.At, 10, 64)
	if err != nil {
		return exact.ErrNoRefund
	}
	return o.counter.Refund(ctx, exact.Receipt{Key: call.Key, Cost: call.Cost, Policy: call.Policy, At: time.Unix(0, at), Serial: r.Serial})
}

// verdictOf writes a verdict.
func verdictOf(v *exact.Verdict, p *exact.Policy) verdict {
	w := verdict{Admitted: v.Admitted, Impossible: v.Impossible, Replayed: v.Replayed, Wait: v.Wait.Microseconds(), Limits: make([]standing, p.Len())}
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
