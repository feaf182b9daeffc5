// SPDX-License-Identifier: Apache-2.0

package exacttest

import (
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
		some := r.call(exact.Call{Key: key, Cost: 2, Policy: p, Past: true})
		if some.Limits[0].Remaining != 3 {
			r.fail("%s: 2 of a quota of 5: %+v, want 3 remaining", l.Algorithm, some.Verdict)
		}
		r.in("%s: 2 of 5", l.Algorithm).back(some.Receipt)
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
