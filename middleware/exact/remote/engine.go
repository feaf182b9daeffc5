// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// An engine makes the calls.
type engine struct {
	owners    []*peer
	keys      ring
	transport http.RoundTripper
	now       func() time.Time
}

// Part implements [exact.Parted].
func (e *engine) Part(call exact.Call) int {
	if len(e.owners) == 1 || call.Policy == nil {
		return 0
	}
	return rendezvous(e.owners, call.Policy.AccountName(call.Key))
}

// Take implements [exact.Counter].
func (e *engine) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	verdicts, err := e.TakeAll(ctx, []exact.Call{call})
	if err != nil {
		return exact.Verdict{}, err
	}
	return verdicts[0], nil
}

// TakeAll implements [exact.Batcher].
func (e *engine) TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	for i := range calls {
		if err := calls[i].Check(ctx); err != nil {
			return nil, err
		}
	}
	var all []exact.Verdict
	for len(calls) > 0 {
		some := calls[:min(maxCalls, len(calls))]
		calls = calls[len(some):]
		q := e.request("take", &some[0])
		for i := range some {
			id := some[i].ID
			if id == "" {
				id = rand.Text() // what makes a recorded request worth nothing
			}
			q.IDs = append(q.IDs, encode(id))
		}
		verdicts, err := e.ask(ctx, &some[0], q, len(some))
		if err != nil {
			if len(all) > 0 && errors.Is(err, exact.ErrNotCounted) {
				err = fmt.Errorf("%w: some were, of others: %v", exact.ErrMaybeCounted, err) // which hides that err is ErrNotCounted
			}
			return nil, err
		}
		all = append(all, verdicts...)
	}
	return all, nil
}

// Peek implements [exact.Counter].
func (e *engine) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	verdicts, err := e.ask(ctx, &call, e.request("peek", &call), 1)
	if err != nil {
		return exact.Verdict{}, err
	}
	return verdicts[0], nil
}

// Refund implements [exact.Counter].
func (e *engine) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil || r.Serial == "" || r.Cost < 1 {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	call := exact.Call{Key: r.Key, Cost: r.Cost, Policy: r.Policy}
	q := e.request("refund", &call)
	q.Receipt = &receipt{r.Serial, strconv.FormatInt(r.At.UnixNano(), 10)}
	_, err := e.ask(ctx, &call, q, 0)
	return err
}

// request is what all calls have.
func (e *engine) request(op string, call *exact.Call) *request {
	return &request{
		Op: op, Key: encode(call.Key), Cost: call.Cost, Policy: encodePolicy(call.Policy),
		Past: call.Past, Ahead: call.Ahead.Microseconds(), Pause: call.Pause.Microseconds(),
	}
}

// ask asks the owner of a key, and once more if our clocks do not agree: its answer says
// what time it is there.
func (e *engine) ask(ctx context.Context, call *exact.Call, q *request, want int) ([]exact.Verdict, error) {
	o := e.owners[e.Part(*call)]
	for try := 0; ; try++ {
		a, err := e.send(ctx, o, q)
		if err != nil {
			return nil, err
		}
		o.ahead.Store(a.At - e.now().UnixMilli())
		if a.Error == staleError && try == 0 {
			continue
		}
		if a.Error != "" {
			return nil, errorNamed(a.Error)
		}
		if len(a.Verdicts) != want {
			return nil, fmt.Errorf("%w: the owner has answered %d calls of %d", exact.ErrMaybeCounted, len(a.Verdicts), want)
		}
		return verdictsOf(call, a.Verdicts)
	}
}

// send sends a request and returns what its owner has signed.
func (e *engine) send(ctx context.Context, o *peer, q *request) (a answer, err error) {
	now := e.now()
	q.At, q.Wait = now.UnixMilli()+o.ahead.Load(), maxWait.Milliseconds()
	if deadline, ok := ctx.Deadline(); ok {
		q.Wait = min(q.Wait, max(1, time.Until(deadline).Milliseconds()))
	}
	body, err := json.Marshal(q)
	if err != nil {
		panic(err) // strings and integers
	}
	sent := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return a, fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	sum := e.keys.sign(requestLabel, "", body)
	r.Header = http.Header{"Content-Type": {"application/json"}, macField: {sum}}
	if q.Op != "refund" {
		// Not sent, and heard by http.Transport alone: it may repeat the request where the
		// connection that it has kept turns out to be closed. The IDs see to the rest. A refund
		// that is repeated unseen would say that there was nothing to give back.
		r.Header["X-Idempotency-Key"] = []string{}
	}
	resp, err := e.transport.RoundTrip(r)
	if err != nil {
		if !sent {
			return a, fmt.Errorf("%w: the owner cannot be reached: %w", exact.ErrNotCounted, err)
		}
		return a, fmt.Errorf("%w: %w", exact.ErrMaybeCounted, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("%w: the answer was cut: %w", exact.ErrMaybeCounted, err)
	}
	if !e.keys.verifies(answerLabel, sum, got, resp.Header.Get(macField)) {
		// A proxy's page, or an owner with other secrets. Nobody who knows has said anything.
		return a, fmt.Errorf("%w: the answer, with status %d, is not signed with a secret of this counter", exact.ErrMaybeCounted, resp.StatusCode)
	}
	if err := json.Unmarshal(got, &a); err != nil {
		return a, fmt.Errorf("%w: the answer is malformed: %w", exact.ErrMaybeCounted, err)
	}
	return a, nil
}

// verdictsOf reads verdicts.
func verdictsOf(call *exact.Call, list []verdict) ([]exact.Verdict, error) {
	verdicts := make([]exact.Verdict, len(list))
	for i := range list {
		w, v := &list[i], &verdicts[i]
		if len(w.Limits) != call.Policy.Len() {
			return nil, fmt.Errorf("%w: the owner has answered %d limits of %d", exact.ErrMaybeCounted, len(w.Limits), call.Policy.Len())
		}
		v.Admitted, v.Impossible, v.Replayed = w.Admitted, w.Impossible, w.Replayed
		v.Wait = time.Duration(w.Wait) * time.Microsecond
		for j, s := range w.Limits {
			v.Limits[j] = storeless.LimitStatus{Remaining: s[0], Reset: time.Duration(s[1]) * time.Second, Blocked: s[2] == 1}
		}
		if w.Receipt == nil {
			continue
		}
		at, err := strconv.ParseInt(w.Receipt.At, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: a receipt without a time", exact.ErrMaybeCounted)
		}
		v.Receipt = exact.Receipt{Key: call.Key, Cost: w.Cost, Policy: call.Policy, At: time.Unix(0, at), Serial: w.Receipt.Serial}
	}
	return verdicts, nil
}
