// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// margin is for how much longer than anything of it counts an account is kept: as long as
// the clocks of two instances may differ. One that a fast clock has charged is not
// forgotten while, by a slow one, its window lasts. And it is kept for as long again as it counts, an
// hour at most: a store forgets by a clock of its own, which may be ahead for a moment.
const margin = time.Minute

// A batcher counts, each call for itself. It is an [engine.Batcher].
type batcher struct {
	store  Store
	loadAt func(ctx context.Context, name string) (value []byte, revision string, now time.Time, err error)
	tries  int64
	random func(n int64) int64 // from 0 to n-1

	replies replies
}

// Take implements [exact.Counter].
func (e *batcher) Take(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	verdicts, err := e.TakeAll(ctx, []exact.Call{call})
	if err != nil {
		return exact.Verdict{}, err
	}
	return verdicts[0], nil
}

// TakeAll implements [engine.Batcher].
func (e *batcher) TakeAll(ctx context.Context, calls []exact.Call) ([]exact.Verdict, error) {
	for i := range calls {
		if err := calls[i].Check(ctx); err != nil {
			return nil, err
		}
	}
	if len(calls) == 0 {
		return nil, nil
	}
	account := calls[0].Policy.AccountName(calls[0].Key)
	verdicts := make([]exact.Verdict, len(calls))
	again := !slices.ContainsFunc(calls, func(c exact.Call) bool { return c.ID == "" })
	var at time.Time
	err := e.update(ctx, account, again, func(a *engine.Account, now time.Time) (changed bool) {
		at = now
		for i := range calls {
			if v, found := e.replies.find(now, account, calls[i].ID); found {
				verdicts[i] = a.Replay(now, v, &calls[i])
				continue
			}
			verdicts[i] = a.Take(now, &calls[i])
			switch {
			case verdicts[i].Replayed:
				e.replies.keep(now, account, calls[i].ID, verdicts[i])
			case verdicts[i].Admitted:
				changed = true
			}
		}
		return changed
	})
	if err != nil {
		return nil, err
	}
	for i := range verdicts {
		if !verdicts[i].Replayed {
			e.replies.keep(at, account, calls[i].ID, verdicts[i])
		}
	}
	return verdicts, nil
}

// Peek implements [exact.Counter].
func (e *batcher) Peek(ctx context.Context, call exact.Call) (exact.Verdict, error) {
	if err := call.Check(ctx); err != nil {
		return exact.Verdict{}, err
	}
	a, _, now, err := e.load(ctx, storeName(call.Policy.AccountName(call.Key)))
	if err != nil {
		return exact.Verdict{}, err
	}
	return a.Peek(now, &call), nil
}

// Refund implements [exact.Counter].
func (e *batcher) Refund(ctx context.Context, r exact.Receipt) error {
	if r.Policy == nil {
		return exact.ErrNoRefund
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	var refused error
	err := e.update(ctx, r.Policy.AccountName(r.Key), false, func(a *engine.Account, now time.Time) bool {
		refused = a.Refund(now, &r)
		return refused == nil
	})
	return cmp.Or(err, refused)
}

// update loads an account, has it decided, and stores it if that has changed it: anew, from
// the beginning, as long as others have changed it meanwhile. Where the answer of a swap is
// lost, and the decision is one that finds itself when it is made again, it finds out at
// once, before others have changed the account too often.
func (e *batcher) update(ctx context.Context, account string, again bool, decide func(a *engine.Account, now time.Time) (changed bool)) error {
	name := storeName(account)
	var took time.Duration
	var lost error // the answer of a swap
	for try := int64(0); try < e.tries; try++ {
		if try > 0 && !backoff(ctx, try, took, e.random) {
			return cmp.Or(lost, contended(try))
		}
		began := time.Now() // of the monotonic clock: what a try takes is no date
		a, revision, now, err := e.load(ctx, name)
		switch {
		case err != nil && try > 0 && ctx.Err() != nil:
			// It has answered within this call, and said that others are counted.
			return cmp.Or(lost, contended(try))
		case err != nil:
			return cmp.Or(lost, err)
		}
		if !decide(a, now) {
			return nil
		}
		value, err := a.AppendBinary(nil)
		if err != nil {
			return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
		}
		err = e.swap(ctx, name, revision, value, keep(a, now))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, exact.ErrNotCounted):
			return cmp.Or(lost, err)
		case !errors.Is(err, ErrChanged):
			first := lost == nil
			lost = fmt.Errorf("%w: %w", exact.ErrMaybeCounted, err)
			if !again || !first || ctx.Err() != nil {
				return lost
			}
		}
		took = time.Since(began)
	}
	return cmp.Or(lost, contended(e.tries))
}

// byClock adds the time to loads. It asks the clock after the load, so that the time is not
// before another instance's write, if their clocks agree.
func byClock(store Store, clock func() time.Time) func(context.Context, string) ([]byte, string, time.Time, error) {
	return func(ctx context.Context, name string) ([]byte, string, time.Time, error) {
		value, revision, err := store.Load(ctx, name)
		return value, revision, clock(), err
	}
}

// swap replaces a value. It asks once more where the store has too many calls.
func (e *batcher) swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	began := time.Now()
	err := e.store.Swap(ctx, name, revision, value, keep)
	if errors.Is(err, exact.ErrBusy) && backoff(ctx, 1, time.Since(began), e.random) {
		err = e.store.Swap(ctx, name, revision, value, keep)
	}
	return err
}

// load returns an account, its revision, and what time it is. It asks once more where the
// store has too many calls.
func (e *batcher) load(ctx context.Context, name string) (*engine.Account, string, time.Time, error) {
	began := time.Now()
	value, revision, now, err := e.loadAt(ctx, name)
	if busy := err; errors.Is(err, exact.ErrBusy) && backoff(ctx, 1, time.Since(began), e.random) {
		if value, revision, now, err = e.loadAt(ctx, name); err != nil {
			err = busy
		}
	}
	a := new(engine.Account)
	if err == nil && len(value) > 0 {
		err = a.UnmarshalBinary(value)
	}
	if err != nil && !errors.Is(err, exact.ErrNotCounted) {
		err = fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return a, revision, now, err
}

// keep returns for how long an account must be kept from now on, in whole seconds.
func keep(a *engine.Account, now time.Time) time.Duration {
	counts := max(0, a.Expires().Sub(now))
	return (counts + min(counts, time.Hour) + margin + time.Second - 1).Truncate(time.Second)
}

func contended(races int64) error {
	return fmt.Errorf("%w: cas: lost %d", exact.ErrContended, races)
}

// storeName names an account in a store, which may not take every byte.
func storeName(account string) string { return hex.EncodeToString([]byte(account)) }

// replies are the known outcomes of calls with an ID. An account carries the last IDs of
// admitted calls for all instances; an ID once found stays known here, also if the call
// that found it then loses its races. Refusals are known here alone: storing them would
// make a refusal as dear as an admission. Another instance decides a repeat anew, and
// charges nothing twice.
type replies struct {
	mu   sync.Mutex
	kept engine.Idempotency
}

// find returns the verdict of an earlier call with that ID.
func (r *replies) find(now time.Time, account, id string) (exact.Verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept.Find(now, account, id)
}

// keep remembers a verdict.
func (r *replies) keep(now time.Time, account, id string, v exact.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Keep(now, account, id, v)
}
