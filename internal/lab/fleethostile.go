// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
)

// A raid is what one hostile client was let in for.
type raid struct {
	rule     *rule
	limit    int
	admitted map[int64]int64 // by the window, where that is sure
	most     map[int64]int64 // the largest quota in it
}

func (r *raid) admit(at span, quota int64) {
	size := r.rule.limits[r.limit].Window.Microseconds()
	if w := at.from / size; w == at.to/size {
		r.admitted[w]++
		r.most[w] = max(r.most[w], quota)
	}
}

// over returns by how much the bound was exceeded, and the window with the most of it: (N+C)·L, of a bucket the burst too.
func (r *raid) over(starts []span) (excess int64, most string) {
	l := r.rule.limits[r.limit]
	size, part := l.Window.Microseconds(), -1.0
	for w, n := range r.admitted {
		bound := int64(fleetSize)
		for _, s := range starts {
			if s.from/size <= w && w <= s.to/size {
				bound++
			}
		}
		bound *= r.most[w] + l.Burst
		excess += max(0, n-bound)
		if p := float64(n) / float64(bound); p > part {
			part, most = p, fmt.Sprintf("%d of %d", n, bound)
		}
	}
	return excess, most
}

// attack starts the hostile clients. Each is at an address of its own, and asks wherever it likes for more than it may have.
func (f *fleet) attack(ctx context.Context, run func(func())) {
	var first, newest atomic.Pointer[string]
	kept := "text=" + strings.Repeat("%22", 20_000)
	show := func(token *atomic.Pointer[string]) []string {
		if t := token.Load(); t != nil {
			return []string{middleware.TokenHeader, *t}
		}
		return nil
	}
	for _, a := range []struct {
		name, policy string
		every        time.Duration
		fields       func() []string
		body         string
	}{
		{"drops", instance.Sliding, 100 * time.Millisecond, func() []string { return nil }, ""},
		{"replays", instance.Sliding, 100 * time.Millisecond, func() []string { return show(&first) }, ""},
		{"forks", instance.Fixed, 100 * time.Millisecond, func() []string { return show(&newest) }, ""},
		{"forges", instance.Bucket, 100 * time.Millisecond, func() []string { return f.forgery(&first) }, ""},
		{"guesses", instance.LogIn, 100 * time.Millisecond, func() []string { return []string{instance.Wrong, "1"} }, ""},
		{"keeps forms", instance.Form, 400 * time.Millisecond, func() []string {
			return []string{"Accept", "text/html", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}
		}, kept},
	} {
		c, r := f.client(a.policy, nil), f.rules[a.policy]
		raid := &raid{rule: r, limit: len(r.limits) - 1, admitted: map[int64]int64{}, most: map[int64]int64{}}
		if a.policy == instance.Sliding {
			raid.limit = 0
		}
		f.raids[a.name] = raid
		one := func(base string, fields []string) {
			quota, from := r.quota.Begin(), time.Now().UnixMicro()
			got, err := c.try(f.cluster.ctx, http.MethodPost, base+"/"+a.policy, strings.NewReader(a.body), fields...)
			f.kind("hostile: "+a.name).heard(got, err)
			if t := got.token(); t != "" {
				first.CompareAndSwap(nil, &t)
				newest.Store(&t)
			}
			if err == nil && admitted(got) {
				raid.admit(span{from, time.Now().UnixMicro()}, r.spread(raid.limit, quota()).Most)
			}
		}
		run(func() {
			for pace(ctx, a.every) {
				if rand.IntN(2) == 0 {
					one(f.through(), a.fields())
				} else {
					one(f.direct(rand.IntN(fleetSize), false), a.fields())
				}
			}
		})
	}
}

// forgery is something that is no token, now and then far too long.
func (f *fleet) forgery(real *atomic.Pointer[string]) []string {
	t := real.Load()
	if t == nil {
		return nil
	}
	list := append(forgeries(*t), strings.Repeat(*t+",", 20), strings.Repeat("A", 900_000))
	return []string{middleware.TokenHeader, list[rand.IntN(len(list))], middleware.ProofHeader, "~0.0"}
}
