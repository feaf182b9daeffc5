// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
	"context"
	"errors"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// each has one limit of each algorithm, all with this quota a day.
func each(quota int64) []storeless.Limit {
	var limits []storeless.Limit
	for _, a := range []storeless.Algorithm{storeless.SlidingWindow, storeless.FixedWindow, storeless.TokenBucket, storeless.SlidingLog, storeless.RollingDay} {
		limits = append(limits, storeless.Limit{Name: a.String(), Algorithm: a, Quota: quota, Window: day})
	}
	return append(limits, calendar(quota, "day", "UTC"))
}

// past charges without asking for room, and gives it back.
func past(r *run) {
	for n, l := range each(5) {
		p, key := policy(l), r.key(n)
		call := exact.Call{Key: key, Cost: 12, Policy: p, Past: true, ID: "a"}
		if said := r.look(call); !said.Admitted || said.Impossible || said.Limits[0].Remaining != 5 {
			r.fail("%s: a peek at 12 past a quota of 5: %+v", l.Algorithm, said.Verdict)
		}
		first := r.call(call)
		if !first.Admitted || first.Impossible || first.Wait != 0 || first.Limits[0].Remaining != 0 {
			r.fail("%s: 12 past a quota of 5: %+v, want admitted, none remaining", l.Algorithm, first.Verdict)
		}
		if again := r.call(call); !again.Replayed || again.Receipt.Serial != first.Receipt.Serial {
			r.fail("%s: the same ID again: %+v, want the first verdict, Replayed", l.Algorithm, again)
		}
		v := r.take(p, key, 1)
		if v.Admitted || v.Impossible || v.Wait <= 0 {
			r.fail("%s: one more: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
		}
		call.Cost, call.ID = 3, ""
		second := r.call(call)
		if !second.Admitted {
			r.fail("%s: past a limit that is passed: refused", l.Algorithm)
		}
		r.in("%s: given back", l.Algorithm).back(first.Receipt)
		r.in("%s: given back", l.Algorithm).back(second.Receipt)
		r.in("%s: given back twice", l.Algorithm).gone(first.Receipt)
		if l.Algorithm == storeless.TokenBucket {
			continue // what leaks meanwhile is not given back: too little to tell how much
		}
		r.in("%s", l.Algorithm).want(p, key, 5, true, 0)
	}
}

// pastWaits checks that what was charged past a limit is owed for as long as the refusal says,
// and no longer.
func pastWaits(r *run) {
	for n, l := range each(5) {
		p, key := policy(l), r.key(n)
		if v := r.call(exact.Call{Key: key, Cost: 12, Policy: p, Past: true}); !v.Admitted {
			r.fail("%s: past: refused", l.Algorithm)
		}
		v := r.take(p, key, 1)
		if v.Admitted || v.Wait <= 0 || v.Limits[0].Reset != v.Wait {
			r.fail("%s: %+v, want a refusal with its wait", l.Algorithm, v.Verdict)
		}
		r.clock.Advance(v.Wait - time.Second)
		r.in("%s: a second before its time", l.Algorithm).want(p, key, 1, false, 0)
		r.clock.Advance(time.Second)
		r.in("%s: when its time has come", l.Algorithm).want(p, key, 1, true)
	}
}

// settled plays a client whose calls are estimated far too low, and settled one after the other:
// in no window, and of a bucket in no time at all, do they cost more than the limit admits and
// what one was estimated too low.
func settled(r *run) {
	const quota, estimate, cost = 5, 1, 12
	for n, l := range each(quota) {
		p, key := policy(l), r.key(n)
		windows, began := map[int64]int64{}, r.clock.Now()
		var admitted []time.Duration
		for call := range 40 {
			v := r.take(p, key, estimate)
			now := r.clock.Now()
			r.clock.Advance(5 * time.Hour)
			switch {
			case !v.Admitted:
				continue
			case call%3 == 0:
				if err := r.Refund(context.Background(), v.Receipt); !errors.Is(err, exact.ErrNoRefund) { // its window has ended
					r.in("%s", l.Algorithm).no(err)
				}
			default:
				windows[now.Unix()/int64(day/time.Second)] += cost
				admitted = append(admitted, now.Sub(began))
				r.in("%s", l.Algorithm).call(exact.Call{Key: key, Cost: cost - estimate, Policy: p, Past: true})
			}
		}
		if len(admitted) < 2 {
			r.fail("%s: %d calls of 40 admitted, want more", l.Algorithm, len(admitted))
		}
		for window, sum := range windows {
			if sum > quota+cost-estimate && l.Algorithm != storeless.TokenBucket {
				r.fail("%s: what was admitted in window %d cost %d, more than %d and %d", l.Algorithm, window, sum, quota, cost-estimate)
			}
		}
		for i, first := range admitted {
			for j, last := range admitted[i:] {
				most := quota + int64((last-first)/(day/quota)) + cost - estimate
				if sum := int64(j+1) * cost; sum > most && l.Algorithm == storeless.TokenBucket {
					r.fail("%s: what was admitted in %s cost %d, more than %d", l.Algorithm, last-first, sum, most)
				}
			}
		}
	}
}
