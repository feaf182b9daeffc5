package exacttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

func hotKey(r *run) error {
	p := policy(fixed(1000, long))
	got, err := r.flood(5000, func(int) exact.Call { return exact.Call{Key: r.key(0), Cost: 1, Policy: p} })
	if err == nil && got != 1000 {
		err = fmt.Errorf("5000 attempts at a limit of 1000: %d admitted", got)
	}
	return err
}

func manyKeys(r *run) error {
	const keys = 500
	p := policy(fixed(4, long))
	got, err := r.flood(10*keys, func(n int) exact.Call { return exact.Call{Key: r.key(n % keys), Cost: 1, Policy: p} })
	if err == nil && got != 4*keys {
		err = fmt.Errorf("10 attempts on each of %d keys with a limit of 4: %d admitted, want %d", keys, got, 4*keys)
	}
	return err
}

func allOrNone(r *run) error {
	p := policy(fixed(10, long), fixed(3, 24*time.Hour))
	for n := range int64(3) {
		if err := r.want(p, r.key(0), 1, true, 9-n, 2-n); err != nil {
			return err
		}
	}
	for range 3 { // the second refuses; the first is not charged for it
		if err := r.want(p, r.key(0), 1, false, 7, 0); err != nil {
			return err
		}
	}
	return nil
}

func costs(r *run) error {
	p := policy(fixed(10, long))
	v, err := r.take(p, r.key(0), 11)
	if err != nil {
		return err
	}
	if v.Admitted || !v.Impossible || v.Wait != 0 {
		return errors.New("a cost above the quota is not Impossible, or has a Wait")
	}
	return errors.Join(
		r.want(p, r.key(0), 4, true, 6),
		r.want(p, r.key(0), 7, false, 6),
		r.want(p, r.key(0), 6, true, 0),
		r.want(p, r.key(0), 1, false, 0))
}

func peek(r *run) error {
	p := policy(fixed(5, long))
	if err := r.want(p, r.key(0), 2, true, 3); err != nil {
		return err
	}
	for range 10 {
		for cost, admitted := range map[int64]bool{3: true, 4: false} {
			v, err := r.Peek(context.Background(), exact.Call{Key: r.key(0), Cost: cost, Policy: p})
			if err != nil {
				return err
			}
			if v.Admitted != admitted || v.Limits[0].Remaining != 3 {
				return fmt.Errorf("a peek at cost %d of 3 remaining: admitted is %t, %d remaining", cost, v.Admitted, v.Limits[0].Remaining)
			}
		}
	}
	return r.want(p, r.key(0), 3, true, 0)
}

func policiesApart(r *run) error {
	limit := fixed(1, long)
	limit.Name = "same"
	p := policy(limit)
	q, err := exact.Compile("exacttest-other", []storeless.Limit{limit})
	if err != nil {
		return err
	}
	return errors.Join(r.want(p, r.key(0), 1, true), r.want(q, r.key(0), 1, true),
		r.want(p, r.key(0), 1, false), r.want(p, r.key(1), 1, true))
}

func ids(r *run) error {
	p := policy(fixed(2, long))
	call := func(key, id string) (exact.Verdict, error) {
		return r.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, ID: id})
	}
	first, err := call(r.key(0), "a")
	if err != nil {
		return err
	}
	for range 5 {
		again, err := call(r.key(0), "a")
		if err != nil {
			return err
		}
		if !again.Admitted || !again.Replayed || again.Receipt != first.Receipt {
			return fmt.Errorf("the same ID again: %+v, want the first verdict, Replayed", again)
		}
	}
	if v, err := call(r.key(1), "a"); err != nil || v.Replayed {
		return errors.Join(err, errors.New("the ID of another key is Replayed"))
	}
	if err := r.want(p, r.key(0), 1, true, 0); err != nil {
		return err
	}
	refused, err := call(r.key(0), "b")
	if err != nil {
		return err
	}
	again, err := call(r.key(0), "b")
	if err != nil {
		return err
	}
	if refused.Admitted || again.Admitted || !again.Replayed {
		return errors.New("a refusal, asked for again by its ID, is not the same refusal")
	}
	if err := r.Refund(context.Background(), first.Receipt); err != nil {
		return err
	}
	if again, err = call(r.key(0), "b"); err != nil || again.Admitted {
		return errors.Join(err, errors.New("a refusal, asked for again by its ID when there is room, is admitted"))
	}
	return r.want(p, r.key(0), 1, true, 0)
}

func idsAtOnce(r *run) error {
	p := policy(fixed(1000, long))
	got, err := r.flood(2000, func(n int) exact.Call {
		return exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(n % 100)}
	})
	if err == nil && got != 2000 {
		err = fmt.Errorf("100 IDs, 20 times each: %d admitted, want all", got)
	}
	if err != nil {
		return err
	}
	v, err := r.Peek(context.Background(), exact.Call{Key: r.key(0), Cost: 1, Policy: p})
	if err == nil && v.Limits[0].Remaining != 1000-100 {
		err = fmt.Errorf("100 IDs, 20 times each, are counted %d times", 1000-v.Limits[0].Remaining)
	}
	return err
}

// batches is for counters that are a Batcher too.
func batches(r *run) error {
	b, ok := r.Counter.(exact.Batcher)
	if !ok {
		return nil
	}
	p := policy(fixed(5, long))
	calls := make([]exact.Call, 8)
	for i := range calls {
		calls[i] = exact.Call{Key: r.key(0), Cost: 1, Policy: p, ID: strconv.Itoa(i)}
	}
	calls[1].ID, calls[2].ID, calls[3].ID = "0", "", ""
	verdicts, err := b.TakeAll(context.Background(), calls)
	if err != nil {
		return err
	}
	if len(verdicts) != len(calls) {
		return fmt.Errorf("%d verdicts for %d calls", len(verdicts), len(calls))
	}
	// The second is the first again; five of the others fit.
	for i, v := range verdicts {
		if v.Admitted != (i < 6) || v.Replayed != (i == 1) {
			return fmt.Errorf("call %d of a quota of 5: admitted is %t, replayed is %t", i, v.Admitted, v.Replayed)
		}
	}
	if err := r.Refund(context.Background(), verdicts[4].Receipt); err != nil {
		return err
	}
	verdicts, err = b.TakeAll(context.Background(), calls[:1])
	if err != nil || !verdicts[0].Replayed {
		return errors.Join(err, errors.New("an ID of a batch is not remembered"))
	}
	return r.want(p, r.key(0), 1, true, 0)
}

func refunds(r *run) error {
	p := policy(fixed(5, long), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 5, Window: long})
	v, err := r.take(p, r.key(0), 3)
	if err != nil {
		return err
	}
	if err := r.want(p, r.key(0), 1, true, 1, 1); err != nil {
		return err
	}
	if err := r.Refund(context.Background(), v.Receipt); err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	for range 3 {
		if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("a second refund: %v, want ErrNoRefund", err)
		}
	}
	second, err := r.take(p, r.key(1), 1)
	if err != nil {
		return err
	}
	third, err := r.take(p, r.key(1), 1)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Refund(context.Background(), second.Receipt), r.Refund(context.Background(), third.Receipt)); err != nil {
		return fmt.Errorf("two refunds: %w", err)
	}
	other := v.Receipt
	other.Key = r.key(2)
	for what, receipt := range map[string]exact.Receipt{"given back before another": second.Receipt, "of a key that was never counted": other} {
		if err := r.Refund(context.Background(), receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("a refund %s: %v, want ErrNoRefund", what, err)
		}
	}
	if err := r.Refund(context.Background(), exact.Receipt{}); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("a refund of nothing: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 4, true, 0, 0)
}

func partRefunds(r *run) error {
	p := policy(fixed(5, long))
	v, err := r.take(p, r.key(0), 5)
	if err != nil {
		return err
	}
	part := v.Receipt
	part.Cost = 2
	if err := r.Refund(context.Background(), part); err != nil {
		return fmt.Errorf("2 of 5: %w", err)
	}
	if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("the rest, after a part: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 2, true, 0)
}

func mistakes(r *run) error {
	p := policy(fixed(5, long))
	huge := string(make([]byte, exact.MaxKey+1))
	for what, call := range map[string]exact.Call{
		"no policy":       {Key: r.key(0), Cost: 1},
		"no key":          {Cost: 1, Policy: p},
		"a key too long":  {Key: huge, Cost: 1, Policy: p},
		"no cost":         {Key: r.key(0), Policy: p},
		"a negative cost": {Key: r.key(0), Cost: -1, Policy: p},
		"an ID too long":  {Key: r.key(0), Cost: 1, Policy: p, ID: huge},
	} {
		var mistake *exact.CallError
		if _, err := r.Take(context.Background(), call); !errors.As(err, &mistake) || !errors.Is(err, exact.ErrNotCounted) {
			return fmt.Errorf("%s: %v, want a CallError", what, err)
		}
		if _, err := r.Peek(context.Background(), call); !errors.As(err, &mistake) {
			return fmt.Errorf("a peek with %s: %v, want a CallError", what, err)
		}
	}
	return r.want(p, r.key(0), 1, true, 4)
}

func ended(r *run) error {
	p := policy(fixed(5, long))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Take(ctx, exact.Call{Key: r.key(0), Cost: 1, Policy: p}); !errors.Is(err, exact.ErrNotCounted) {
		return fmt.Errorf("%v, want ErrNotCounted", err)
	}
	return r.want(p, r.key(0), 1, true, 4)
}

func upgrade(r *run) error {
	small, large := policy(fixed(2, long)), policy(fixed(5, long))
	return errors.Join(
		r.want(small, r.key(0), 2, true, 0), r.want(small, r.key(0), 1, false, 0),
		r.want(large, r.key(0), 2, true, 1), r.want(small, r.key(0), 1, false, 0))
}

// algorithms compares a counter with the pure arithmetic, step by step.
func algorithms(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	for n, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.LeakyBucket} {
		p := policy(storeless.Limit{Algorithm: a, Quota: 7, Window: time.Minute}, fixed(60, time.Hour))
		var tally storeless.Tally
		for step := range 400 {
			r.clock.Advance(time.Duration(step*step%17) * time.Second / 2)
			cost := int64(1 + step%3%2)
			var want storeless.Verdict
			tally, want = p.Tokens().Step(r.clock.Now(), tally, cost)
			got, err := r.take(p, r.key(n), cost)
			if err != nil {
				return err
			}
			if got.Verdict != want {
				return fmt.Errorf("%s, step %d: %+v, want %+v", a, step, got.Verdict, want)
			}
		}
	}
	return nil
}

func lateRefunds(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p := policy(fixed(5, time.Minute))
	old, err := r.take(p, r.key(0), 3)
	if err != nil {
		return err
	}
	r.clock.Advance(time.Minute)
	if err := r.want(p, r.key(0), 3, true, 2); err != nil {
		return err
	}
	if err := r.Refund(context.Background(), old.Receipt); !errors.Is(err, exact.ErrNoRefund) {
		return fmt.Errorf("in the next window: %v, want ErrNoRefund", err)
	}
	return r.want(p, r.key(0), 2, true, 0)
}

func stepBack(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p := policy(fixed(5, time.Minute))
	if err := r.want(p, r.key(0), 5, true, 0); err != nil {
		return err
	}
	r.clock.Advance(-40 * time.Second)
	v, err := r.take(p, r.key(0), 1)
	switch {
	case err != nil:
		return err
	case v.Admitted:
		return errors.New("40 s back: a fresh quota")
	case v.Wait < 100*time.Second || v.Wait > 101*time.Second || v.Limits[0].Reset != v.Wait:
		return fmt.Errorf("40 s back, at the start of a minute: a wait of %s, want 100 s", v.Wait)
	}
	r.clock.Advance(v.Wait - 2*time.Second)
	if err := r.want(p, r.key(0), 1, false, 0); err != nil {
		return fmt.Errorf("40 s back, before the wait is over: %w", err)
	}
	r.clock.Advance(2 * time.Second)
	if err := r.want(p, r.key(0), 5, true, 0); err != nil {
		return err
	}
	// A refusal, or a peek, in the next window, and back: nobody has a quota twice.
	for n, l := range []storeless.Limit{fixed(5, time.Minute), {Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute},
		{Quota: 5, Window: time.Minute}, {Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}} {
		p, key := policy(l), r.key(1+n)
		if err := r.want(p, key, 5, true, 0); err != nil {
			return err
		}
		r.clock.Advance(70 * time.Second)
		if err := r.want(p, key, 6, false); err != nil {
			return err
		}
		if _, err := r.Peek(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p}); err != nil {
			return err
		}
		r.clock.Advance(-40 * time.Second)
		admitted := 0
		for range 10 {
			v, err := r.take(p, key, 1)
			if err != nil {
				return err
			}
			if v.Admitted {
				admitted++
			}
		}
		// Whether time stands still at the refusal or not, no more than fits then.
		if most := map[storeless.Algorithm]int{storeless.TokenBucket: 5, storeless.SlidingLog: 5}[l.Algorithm]; admitted > most {
			return fmt.Errorf("%s: %d admitted after a clock that stepped forth and back, want at most %d", l.Algorithm, admitted, most)
		}
		r.clock.Advance(10 * time.Minute)
	}
	return nil
}

// wrongClock has a clock jump ahead, a quota be spent there, and the clock come back: the
// account begins anew, once, and what it was charged there is nothing to refund.
func wrongClock(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	for n, l := range []storeless.Limit{
		fixed(5, time.Minute), {Quota: 5, Window: time.Minute},
		{Algorithm: storeless.TokenBucket, Quota: 5, Window: time.Minute}, {Algorithm: storeless.LeakyBucket, Quota: 5, Window: time.Minute},
		{Algorithm: storeless.SlidingLog, Quota: 5, Window: time.Minute}, {Algorithm: storeless.RollingDay, Quota: 5, Window: 24 * time.Hour},
	} {
		p, key := policy(l), r.key(n)
		spend := func() (receipts []exact.Receipt, err error) {
			for range 10 {
				v, err := r.take(p, key, 1)
				if err != nil {
					return nil, err
				}
				if v.Admitted {
					receipts = append(receipts, v.Receipt)
				}
			}
			return receipts, nil
		}
		first, err := spend()
		if err != nil {
			return err
		}
		r.clock.Advance(365 * 24 * time.Hour)
		there, err := spend()
		if err != nil {
			return err
		}
		r.clock.Advance(time.Minute - 365*24*time.Hour)
		if err := r.Refund(context.Background(), there[0]); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("%s: a refund of what a wrong clock charged: %v, want ErrNoRefund", l.Algorithm, err)
		}
		if v, err := r.Peek(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p}); err != nil || !v.Admitted {
			return errors.Join(err, fmt.Errorf("%s: a clock that was a year ahead for a moment locks out for %s", l.Algorithm, v.Wait))
		}
		again, err := spend()
		if err != nil {
			return err
		}
		if len(again) != len(first) {
			return fmt.Errorf("%s: %d admitted after a clock that was a year ahead, want %d", l.Algorithm, len(again), len(first))
		}
		if err := r.Refund(context.Background(), there[0]); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("%s: a late refund of what a wrong clock charged: %v, want ErrNoRefund", l.Algorithm, err)
		}
		if err := r.Refund(context.Background(), again[0]); err != nil {
			return fmt.Errorf("%s: a refund after a wrong clock: %w", l.Algorithm, err)
		}
		if more, err := spend(); err != nil || len(more) != 1 {
			return errors.Join(err, fmt.Errorf("%s: %d admitted after a refund, want 1", l.Algorithm, len(more)))
		}
	}
	return nil
}
