// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// meter is a limit of one each minute: slow enough that a check is over long before the next.
func meter() storeless.Limit {
	return storeless.Limit{Name: "meter", Algorithm: storeless.LeakyBucket, Quota: 60, Window: time.Hour}
}

// book books a call, and fails if it is refused.
func (r *run) book(p *exact.Policy, key, id string) (exact.Verdict, error) {
	v, err := r.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, Ahead: exact.MaxAhead, ID: id})
	if err == nil && !v.Admitted {
		err = fmt.Errorf("a call with Ahead of an hour is refused, for %s", v.Wait)
	}
	return v, err
}

// after says what is wrong with when a call is admitted, from when another was on.
func after(v exact.Verdict, from time.Time, by time.Duration) error {
	if got := v.Receipt.At.Sub(from); got != by {
		return fmt.Errorf("booked for %s after the first, want %s", got, by)
	}
	return nil
}

// bookings are one behind the other, under the slowest of several limits.
func bookings(r *run) error {
	for n, p := range []*exact.Policy{policy(meter()),
		policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour, Burst: 100})} {
		key := r.key(n)
		first, err := r.book(p, key, "")
		if err != nil {
			return err
		}
		if first.Wait != 0 {
			return fmt.Errorf("the first waits for %s", first.Wait)
		}
		from := first.Receipt.At.Truncate(time.Microsecond)
		for i := 1; i <= 5; i++ {
			id := strconv.Itoa(i)
			v, err := r.book(p, key, id)
			if err != nil {
				return err
			}
			if err := after(v, from, time.Duration(i)*time.Minute); err != nil {
				return err
			}
			if v.Wait <= time.Duration(i-1)*time.Minute || v.Wait > time.Duration(i)*time.Minute {
				return fmt.Errorf("the wait of number %d is %s", i, v.Wait)
			}
			again, err := r.book(p, key, id)
			if err != nil {
				return err
			}
			if !again.Replayed || !again.Receipt.At.Equal(v.Receipt.At) || again.Wait <= 0 || again.Wait > v.Wait {
				return fmt.Errorf("the same ID again: %+v, want the first verdict, Replayed, with what it has to wait still", again)
			}
		}
		if err := r.want(p, key, 1, false, 0); err != nil {
			return fmt.Errorf("now, behind what is booked: %w", err)
		}
		refused, err := r.Take(context.Background(), exact.Call{Key: key, Cost: 1, Policy: p, Ahead: 2 * time.Minute})
		if err != nil {
			return err
		}
		if refused.Admitted || refused.Wait <= 3*time.Minute || refused.Wait > 4*time.Minute {
			return fmt.Errorf("further ahead than asked for: admitted is %t, wait %s, want a refusal for 4 m", refused.Admitted, refused.Wait)
		}
		if v, err := r.Take(context.Background(), exact.Call{Key: key, Cost: 2, Policy: p, Ahead: exact.MaxAhead}); err != nil || !v.Impossible {
			return errors.Join(err, errors.New("booked at a cost above the burst: not Impossible"))
		}
	}
	return nil
}

// bookingsAtOnce books from many goroutines: no two for one moment, and none left out.
func bookingsAtOnce(r *run) error {
	const calls = 40
	p := policy(meter())
	var mu sync.Mutex
	var moments []time.Time
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for n := range calls {
		wg.Go(func() {
			v, err := r.book(p, r.key(0), "")
			mu.Lock()
			defer mu.Unlock()
			errs[n] = err
			moments = append(moments, v.Receipt.At.Truncate(time.Microsecond))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.SortFunc(moments, time.Time.Compare)
	for i := range moments {
		if got := moments[i].Sub(moments[0]); got != time.Duration(i)*time.Minute {
			return fmt.Errorf("number %d of %d is booked for %s after the first, want %d m", i, calls, got, i)
		}
	}
	return nil
}

// bookingsBack gives back what was booked: the last, one in the middle, and all.
func bookingsBack(r *run) error {
	p, key := policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour, Burst: 100}), r.key(0)
	var booked []exact.Verdict
	for range 6 {
		v, err := r.book(p, key, "")
		if err != nil {
			return err
		}
		booked = append(booked, v)
	}
	from := booked[0].Receipt.At.Truncate(time.Microsecond)
	back := func(n int) error {
		if err := r.Refund(context.Background(), booked[n].Receipt); err != nil {
			return fmt.Errorf("number %d given back: %w", n, err)
		}
		if err := r.Refund(context.Background(), booked[n].Receipt); !errors.Is(err, exact.ErrNoRefund) {
			return fmt.Errorf("number %d given back twice: %v, want ErrNoRefund", n, err)
		}
		return nil
	}
	next := func(is time.Duration) error {
		v, err := r.book(p, key, "")
		if err != nil {
			return err
		}
		booked = append(booked, v)
		return after(v, from, is)
	}
	if err := errors.Join(back(5), next(5*time.Minute)); err != nil { // 6
		return fmt.Errorf("the last: %w", err)
	}
	if err := errors.Join(back(2), next(2*time.Minute), next(6*time.Minute)); err != nil { // 7, 8
		return fmt.Errorf("one in the middle: %w", err)
	}
	for _, n := range []int{3, 8, 1, 7, 6, 4} {
		if err := back(n); err != nil {
			return err
		}
	}
	if err := next(time.Minute); err != nil {
		return fmt.Errorf("when all is given back: %w", err)
	}
	return nil
}

// bookingsWait checks that a booking's moment is when a call would be admitted that nobody
// booked, and that a booking is spent when its moment has come.
func bookingsWait(r *run) error {
	start := r.clock.Now()
	defer func() { r.clock.Advance(start.Sub(r.clock.Now())) }()
	p, key := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 4, Window: time.Second}), r.key(0)
	first, err := r.book(p, key, "")
	if err != nil {
		return err
	}
	second, err := r.book(p, key, "")
	if err != nil {
		return err
	}
	if first.Wait != 0 || second.Wait != time.Second/4 {
		return fmt.Errorf("waits of %s and %s, want 0 and 250 ms", first.Wait, second.Wait)
	}
	r.clock.Advance(time.Second/2 - time.Microsecond)
	if err := r.want(p, key, 1, false, 0); err != nil {
		return fmt.Errorf("before the booked one is a quarter of a second old: %w", err)
	}
	r.clock.Advance(time.Microsecond)
	return r.want(p, key, 1, true, 0)
}

// mistakesAhead are calls that ask for what cannot be.
func mistakesAhead(r *run) error {
	buckets, windows := policy(meter()), policy(fixed(5, long))
	for what, call := range map[string]exact.Call{
		"ahead in a window":     {Cost: 1, Policy: windows, Ahead: time.Second},
		"too far ahead":         {Cost: 1, Policy: buckets, Ahead: exact.MaxAhead + 1},
		"ahead, and past":       {Cost: 1, Policy: buckets, Ahead: time.Second, Past: true},
		"ahead, and a pause":    {Cost: 1, Policy: buckets, Ahead: time.Second, Pause: time.Second},
		"too long a pause":      {Policy: windows, Pause: exact.MaxPause + 1},
		"a pause with a charge": {Cost: 1, Policy: windows, Pause: time.Second},
		"past, for nothing":     {Policy: windows, Past: true},
	} {
		call.Key = r.key(0)
		var mistake *exact.CallError
		if _, err := r.Take(context.Background(), call); !errors.As(err, &mistake) {
			return fmt.Errorf("%s: %v, want a CallError", what, err)
		}
	}
	return errors.Join(r.want(windows, r.key(0), 1, true, 4), r.want(buckets, r.key(0), 1, true, 0))
}
