// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/tallystick/tallystick/internal/chance"
	"github.com/tallystick/tallystick/middleware"
)

// A bucket gives a tally one request a second, and a burst. Away from home it is filled more slowly.
type bucket struct{ burst int64 }

func (b bucket) site() site {
	s := selling(middleware.Newcomers)
	s.limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: b.burst}}
	return s
}

// slower is how many times slower, on n instances.
func (b bucket) slower(o Options, n int) float64 { return chance.Slower(b.burst, o.expected(n), 1) }

// played has 100 clients use all of it for ten minutes: the burst at once, and then one request each second. A client
// of one instance would never be refused.
func (b bucket) played(o Options) *people {
	f := newFleet(o, fmt.Sprint("bucket ", b.burst), 10, b.site())
	p := &people{f: f, l: math.MaxInt64}
	for i := range 100 {
		p.all = append(p.all, &client{addr: v4(i)})
	}
	for range b.burst - 1 {
		for _, c := range p.all {
			p.ask(c, f.any)
		}
	}
	for second := range 600 {
		f.now = f.began.Add(time.Duration(second) * time.Second)
		for _, c := range p.all {
			p.ask(c, f.any)
		}
	}
	return p
}

// worth is what one tally admits on n instances within a minute, to a client that shows its first token to all.
func (b bucket) worth(o Options, n int) result {
	f := newFleet(o, fmt.Sprint("worth of a bucket ", b.burst), n, b.site())
	a := f.attacker(v4(0))
	a.Buy(0)
	for second := range 60 {
		f.now = f.began.Add(time.Duration(second) * time.Second)
		a.Use(1)
	}
	away := b.burst + int64(59/b.slower(o, n))
	return result{a.Gained().Admitted, b.burst + 59 + int64(n-1)*away}
}

// bucketsTable: by the size of the burst.
func bucketsTable(o Options) Table {
	t := Table{Name: "buckets", Page: Page, Head: []string{
		"burst", "filled every, N = 10", "requests of 100 clients", "admitted", "refused, though their tally has room", "a tally in a minute, N = 10",
		"with `Instances` 1: refused", "a tally in a minute",
	}}
	for _, b := range []bucket{{2}, {3}, {5}, {10}, {20}, {60}} {
		t.Rows = append(t.Rows, Row{Quick: true, Make: func() []string {
			whole := o.expecting(1)
			p, all := b.played(o), b.played(whole)
			return []string{
				figure(b.burst), fmt.Sprintf("%.1f s", b.slower(o, 10)), figure(p.requests), figure(p.admitted), p.refused(), b.worth(o, 10).String(),
				all.refused(), b.worth(whole, 10).String(),
			}
		}})
	}
	return t
}
