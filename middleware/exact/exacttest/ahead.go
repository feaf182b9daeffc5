// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
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
func (r *run) book(p *exact.Policy, key, id string) exact.Verdict {
	v := r.call(exact.Call{Key: key, Cost: 1, Policy: p, Ahead: exact.MaxAhead, ID: id})
	if !v.Admitted {
		r.fail("a call with Ahead of an hour is refused, for %s", v.Wait)
	}
	return v
}

// after checks when a call is admitted, from when another was on.
func (r *run) after(v exact.Verdict, from time.Time, by time.Duration) {
	if got := v.Receipt.At.Sub(from); got != by {
		r.fail("booked for %s after the first, want %s", got, by)
	}
}

// bookings are one behind the other, under the slowest of several limits.
func bookings(r *run) {
	for n, p := range []*exact.Policy{policy(meter()),
		policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour, Burst: 100})} {
		key := r.key(n)
		first := r.book(p, key, "")
		if first.Wait != 0 {
			r.fail("the first waits for %s", first.Wait)
		}
		from := first.Receipt.At.Truncate(time.Microsecond)
		for i := 1; i <= 5; i++ {
			id := strconv.Itoa(i)
			v := r.book(p, key, id)
			r.after(v, from, time.Duration(i)*time.Minute)
			if v.Wait <= time.Duration(i-1)*time.Minute || v.Wait > time.Duration(i)*time.Minute {
				r.fail("the wait of number %d is %s", i, v.Wait)
			}
			again := r.book(p, key, id)
			if !again.Replayed || !again.Receipt.At.Equal(v.Receipt.At) || again.Wait <= 0 || again.Wait > v.Wait {
				r.fail("the same ID again: %+v, want the first verdict, Replayed, with what it has to wait still", again)
			}
		}
		r.in("now, behind what is booked").want(p, key, 1, false, 0)
		refused := r.call(exact.Call{Key: key, Cost: 1, Policy: p, Ahead: 2 * time.Minute})
		if refused.Admitted || refused.Wait <= 3*time.Minute || refused.Wait > 4*time.Minute {
			r.fail("further ahead than asked for: admitted is %t, wait %s, want a refusal for 4 m", refused.Admitted, refused.Wait)
		}
		if v := r.call(exact.Call{Key: key, Cost: 2, Policy: p, Ahead: exact.MaxAhead}); !v.Impossible {
			r.fail("booked at a cost above the burst: not Impossible")
		}
	}
}

// bookingsAtOnce books from many goroutines: no two for one moment, and none left out.
func bookingsAtOnce(r *run) {
	const calls = 40
	p := policy(meter())
	var mu sync.Mutex
	var moments []time.Time
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for n := range calls {
		wg.Go(func() {
			errs[n] = found(func() {
				v := r.book(p, r.key(0), "")
				mu.Lock()
				defer mu.Unlock()
				moments = append(moments, v.Receipt.At.Truncate(time.Microsecond))
			})
		})
	}
	wg.Wait()
	r.no(errors.Join(errs...))
	slices.SortFunc(moments, time.Time.Compare)
	for i := range moments {
		if got := moments[i].Sub(moments[0]); got != time.Duration(i)*time.Minute {
			r.fail("number %d of %d is booked for %s after the first, want %d m", i, calls, got, i)
		}
	}
}

// bookingsBack gives back what was booked: the last, one in the middle, and all.
func bookingsBack(r *run) {
	p, key := policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 1000, Window: time.Hour, Burst: 100}), r.key(0)
	var booked []exact.Verdict
	for range 6 {
		booked = append(booked, r.book(p, key, ""))
	}
	from := booked[0].Receipt.At.Truncate(time.Microsecond)
	back := func(n int) {
		r.in("number %d given back", n).back(booked[n].Receipt)
		r.in("number %d given back twice", n).gone(booked[n].Receipt)
	}
	next := func(what string, is time.Duration) {
		v := r.book(p, key, "")
		booked = append(booked, v)
		r.in("%s", what).after(v, from, is)
	}
	back(5)
	next("the last", 5*time.Minute) // 6
	back(2)
	next("one in the middle", 2*time.Minute) // 7
	next("one in the middle", 6*time.Minute) // 8
	for _, n := range []int{3, 8, 1, 7, 6, 4} {
		back(n)
	}
	next("when all is given back", time.Minute)
}

// joined has a limit join others while a call is booked: what was charged in it before comes back.
func joined(r *run) {
	alone := policy(meter())
	both := policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 3, Window: long, Burst: 3})
	before := r.take(both, r.key(0), 1)
	r.book(alone, r.key(0), "")
	r.back(before.Receipt)
	if v := r.look(exact.Call{Key: r.key(0), Cost: 1, Policy: both}); v.Limits[1].Remaining != 3 {
		r.fail("%+v, want 3 remaining of the limit that is in one policy", v.Verdict)
	}
}

// bookingsWait checks that a booking's moment is when a call that is not booked would be admitted,
// and that a booking is spent when its moment has come.
func bookingsWait(r *run) {
	p, key := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 4, Window: time.Second}), r.key(0)
	first := r.book(p, key, "")
	second := r.book(p, key, "")
	if first.Wait != 0 || second.Wait != time.Second/4 {
		r.fail("waits of %s and %s, want 0 and 250 ms", first.Wait, second.Wait)
	}
	r.clock.Advance(time.Second/2 - time.Microsecond)
	r.in("before the booked one is a quarter of a second old").want(p, key, 1, false, 0)
	r.clock.Advance(time.Microsecond)
	r.want(p, key, 1, true, 0)

	p, key = policy(meter(), storeless.Limit{Name: "bucket", Algorithm: storeless.TokenBucket, Quota: 10, Window: time.Hour, Burst: 10}), r.key(1)
	var booked []exact.Verdict
	for range 4 {
		booked = append(booked, r.book(p, key, ""))
	}
	r.back(booked[1].Receipt)
	r.back(booked[2].Receipt)
	r.clock.Advance(4 * time.Minute)
	r.book(p, key, "")
	if v := r.look(exact.Call{Key: key, Cost: 1, Policy: p}); v.Limits[1].Remaining != 7 {
		r.fail("%+v, want 7 remaining of 10: 5 were charged in 4 minutes, and 2 of them given back", v.Verdict)
	}
}

// mistakesAhead are calls that ask for what cannot be.
func mistakesAhead(r *run) {
	buckets, windows := policy(meter()), policy(fixed(5, long))
	key := r.key(0)
	r.mistaken(map[string]exact.Call{
		"ahead in a window":     {Key: key, Cost: 1, Policy: windows, Ahead: time.Second},
		"too far ahead":         {Key: key, Cost: 1, Policy: buckets, Ahead: exact.MaxAhead + 1},
		"ahead, and past":       {Key: key, Cost: 1, Policy: buckets, Ahead: time.Second, Past: true},
		"ahead, and a pause":    {Key: key, Cost: 1, Policy: buckets, Ahead: time.Second, Pause: time.Second},
		"too long a pause":      {Key: key, Policy: windows, Pause: exact.MaxPause + 1},
		"a pause with a charge": {Key: key, Cost: 1, Policy: windows, Pause: time.Second},
		"past, for nothing":     {Key: key, Policy: windows, Past: true},
	})
	r.want(windows, r.key(0), 1, true, 4)
	r.want(buckets, r.key(0), 1, true, 0)
}

// pauses of keys that have counted nothing, and of one that has.
func pauses(r *run) {
	p := policy(fixed(5, long))
	for n := range 2 {
		key := r.key(n)
		if n == 1 {
			r.want(p, key, 2, true, 3)
		}
		v := r.call(exact.Call{Key: key, Policy: p, Pause: time.Hour, ID: "a"})
		if !v.Admitted {
			r.fail("a pause is refused")
		}
		r.in("a pause given back").gone(v.Receipt)
		if again := r.call(exact.Call{Key: key, Policy: p, Pause: 2 * time.Hour, ID: "a"}); !again.Admitted || !again.Replayed || again.Wait != 0 || again.Receipt != (exact.Receipt{}) {
			r.fail("the same ID again: %+v, want the first verdict, Replayed, and no wait", again)
		}
		// A shorter one changes nothing.
		r.call(exact.Call{Key: key, Policy: p, Pause: time.Minute})
		for _, ask := range []func(exact.Call) exact.Verdict{r.call, r.look} {
			v := ask(exact.Call{Key: key, Cost: 1, Policy: p})
			if v.Admitted || v.Impossible || v.Wait <= 50*time.Minute || v.Wait > time.Hour || v.Limits[0].Remaining != 0 {
				r.fail("in a pause of an hour: %+v, want a refusal for it", v.Verdict)
			}
		}
		if v := r.call(exact.Call{Key: key, Cost: 1, Policy: p, Past: true}); !v.Admitted {
			r.fail("what was used already is refused in a pause")
		}
	}
	r.want(p, r.key(2), 5, true, 0)
}

// pauseEnds checks that nothing is admitted or booked in a pause, that what was booked before
// stays, and that all is as before when it is over.
func pauseEnds(r *run) {
	p, key := policy(storeless.Limit{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}), r.key(0)
	var waits []int64
	for n := range 5 {
		if n == 3 {
			r.call(exact.Call{Key: key, Policy: p, Pause: 20 * time.Second})
		}
		waits = append(waits, int64(r.book(p, key, "").Wait/time.Second))
	}
	if want := "[0 1 2 20 21]"; fmt.Sprint(waits) != want {
		r.fail("three booked, a pause of 20 s, two booked: seconds %v, want %s", waits, want)
	}
	if v := r.take(p, key, 1); v.Admitted || v.Wait != 22*time.Second {
		r.fail("behind these, and in the pause: %+v, want a refusal for 22 s", v.Verdict)
	}
	if !r.call(exact.Call{Key: r.key(1), Policy: p, Pause: 20 * time.Second}).Admitted {
		r.fail("a pause is refused")
	}
	refused := r.call(exact.Call{Key: r.key(1), Cost: 1, Policy: p, Ahead: 5 * time.Second})
	if refused.Admitted || refused.Wait != 15*time.Second {
		r.fail("5 s ahead in a pause of 20 s: admitted is %t, wait %s, want a refusal for 15 s", refused.Admitted, refused.Wait)
	}
	refused = r.take(p, r.key(1), 1)
	if refused.Admitted || refused.Wait != 20*time.Second {
		r.fail("in a pause of 20 s: admitted is %t, wait %s", refused.Admitted, refused.Wait)
	}
	r.clock.Advance(20*time.Second - time.Microsecond)
	r.in("before the pause is over").want(p, r.key(1), 1, false, 0)
	r.clock.Advance(time.Microsecond)
	r.want(p, r.key(1), 1, true, 0)
}
