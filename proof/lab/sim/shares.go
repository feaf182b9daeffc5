// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/chance"
	"github.com/tallystick/tallystick/proof/pages"
)

// worth is how many requests one tally admits on n instances, by a limit of l.
func worth(o Options, n int, l int64) int64 {
	return unlessByChance(func() int64 {
		s := selling(middleware.Newcomers)
		s.Limits, s.Cost = perMinute(l), costOf
		f := newFleet(o, fmt.Sprint("worth", n, l), n, s)
		a := f.attacker(one...)
		a.Buy(0)
		a.Use(f.bulk())
		return a.Gained().Admitted
	}, func(passed int64) bool { return passed > o.bought(1, l, int64(n), 0, 1) })
}

// inQuotas writes what one tally admits, in quotas.
func inQuotas(o Options, n int, l int64) string {
	return fmt.Sprintf("%.1f L", float64(worth(o, n, l))/float64(l))
}

// quotasTable: by the size of the limit.
func quotasTable(o Options) pages.Made {
	t := table("quotas", "L", "q, N = 10", "requests of 1,000 clients, N = 10", "admitted", "refused under their limit", "a tally is worth, N = 10", "N = 100",
		"with `Instances` 1: refused", "worth, N = 10", "N = 100")
	whole := o.expecting(1)
	for _, l := range []int64{3, 5, 20, 100, 1000} {
		t.Add(l <= 100, func() []any {
			s := scene{fmt.Sprint("quotas", l), 10, 1000, int(l), middleware.Newcomers, v4, anywhere, 0}
			p := s.played(o, l)
			return []any{
				l, chance.Share(l, o.expected(10), 1), p.requests, p.admitted, p.refused(), inQuotas(o, 10, l), inQuotas(o, 100, l),
				s.played(whole, l).refused(), inQuotas(whole, 10, l), inQuotas(whole, 100, l),
			}
		})
	}
	return t
}

// A plan is a site whose instances change within the window, and what its operator says.
type plan struct {
	from, to  int
	instances int64
}

// plans are the truth, a tenth of it and ten times as much, of a fleet that stays, grows and
// shrinks. A tenth of ten is 1, with which the rule is off; 2 stands for it.
func plans() (all []plan) {
	for _, p := range []plan{{10, 10, 10}, {2, 50, 50}, {50, 2, 50}} {
		for _, instances := range []int64{1, max(2, p.instances/10), p.instances, 10 * p.instances} {
			all = append(all, plan{p.from, p.to, instances})
		}
	}
	return append(all, plan{100, 100, 100}, plan{2, 2, 50})
}

func (p *plan) name() string {
	if p.from == p.to {
		return fmt.Sprint(p.from)
	}
	return fmt.Sprintf("from %d to %d", p.from, p.to)
}

// played has 200 clients use all of their limit.
func (p *plan) played(o Options) *people {
	s := scene{fmt.Sprint("plan ", p.name()), p.from, 200, attacked, middleware.Newcomers, v4, scalingTo(p.to), 0}
	return s.played(o.expecting(p.instances), attacked)
}

// plansTable: what it costs to be wrong about the number of instances.
func plansTable(o Options) pages.Made {
	t := table("plans", "instances", "`Instances`", "q", "requests of 200 clients", "admitted", "refused under their limit", "proofs for each",
		"a tally is worth, of the most instances")
	for _, p := range plans() {
		t.Add(true, func() []any {
			got := p.played(o)
			return []any{
				p.name(), p.instances, chance.Share(attacked, p.instances, 1), got.requests, got.admitted, got.refused(), got.proofsEach(),
				inQuotas(o.expecting(p.instances), max(p.from, p.to), attacked),
			}
		})
	}
	return t
}

// A bucket gives a tally one request a second, and a burst. Away from home it is filled more slowly.
type bucket int64

func (b bucket) fleet(o Options, name string, n int) *fleet {
	s := selling(middleware.Newcomers)
	s.Limits = []middleware.Limit{{Algorithm: middleware.TokenBucket, Quota: 60, Window: time.Minute, Burst: int64(b)}}
	return newFleet(o, fmt.Sprint(name, int64(b)), n, s)
}

// slower is how many times slower, on n instances.
func (b bucket) slower(o Options, n int) float64 { return chance.Slower(int64(b), o.expected(n), 1) }

// played has 100 clients use all of it for ten minutes: the burst at once, and then one request each second. A client
// of one instance would never be refused.
func (b bucket) played(o Options) *people {
	p := gathered(b.fleet(o, "bucket ", 10), 1, 100, v4)
	p.l = math.MaxInt64
	for n := range b - 1 + 600 {
		p.f.now = p.f.began.Add(time.Duration(max(0, n-b+1)) * time.Second)
		for _, c := range p.all {
			p.ask(c, p.f.any)
		}
	}
	return p
}

// worth is what one tally admits on n instances within a minute, to a client that shows its first token to all.
func (b bucket) worth(o Options, n int) result {
	f := b.fleet(o, "worth of a bucket ", n)
	a := f.attacker(one...)
	a.Buy(0)
	for second := range 60 {
		f.now = f.began.Add(time.Duration(second) * time.Second)
		a.Use(1)
	}
	away := int64(b) + int64(59/b.slower(o, n))
	return result{a.Gained().Admitted, int64(b) + 59 + int64(n-1)*away}
}

// bucketsTable: by the size of the burst.
func bucketsTable(o Options) pages.Made {
	t := table("buckets", "burst", "filled every, N = 10", "requests of 100 clients", "admitted", "refused, though their tally has room",
		"a tally in a minute, N = 10", "with `Instances` 1: refused", "a tally in a minute")
	whole := o.expecting(1)
	for _, b := range []bucket{2, 3, 5, 10, 20, 60} {
		t.Add(true, func() []any {
			p := b.played(o)
			return []any{
				int64(b), fmt.Sprintf("%.1f s", b.slower(o, 10)), p.requests, p.admitted, p.refused(), b.worth(o, 10),
				b.played(whole).refused(), b.worth(whole, 10),
			}
		})
	}
	return t
}
