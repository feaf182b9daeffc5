// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/rows"
	"github.com/tallystick/tallystick/proof/truth"
	"github.com/tallystick/tallystick/storeless"
)

// A traffic is a day of a site, told by the decisions of package limiter themselves.
type traffic struct {
	name      string
	instances int
	room      int // of each memory, in clients
	clients   int
	requests  int
	tiers     [2][]storeless.Limit // nine in ten clients, and the others, in turn
	skew      time.Duration        // clocks are wrong by up to this, either way
	deploys   []time.Duration      // after which every instance is replaced, within ten minutes
	autoscale bool                 // instances follow the traffic, from a tenth of them
	each      int                  // requests of each client, on the third day of clients that never return; 0: some return often
}

// A visitor is one of the million.
type visitor struct {
	key     limiter.Key
	shown   [2]limiter.State // its token
	truth   [2]mark          // all that it was ever admitted
	window  [2]int32         // the number of the last window that it was admitted in
	counted [2]uint32        // in that
}

type toll struct {
	requests, admitted int64
	early              int64         // refused, though there was room by all that the client was ever admitted
	late               int64         // of one that echoes: admitted, though there was none
	most               [2][2]float64 // by whether tokens are dropped, and by limit: of one aligned window, in quotas
	fullest            float64
	began              uint64 // newcomers that began with a count
	starts             int
}

// drops says that a visitor throws its tokens away: one in twenty does.
func drops(n int) bool { return n%20 == 7 }

// noon is when a day begins here, so that each window of a day ends within it.
const noon = 12 * time.Hour

// busy is how much of the traffic there is at a time of the day, from 0.2 to 1.8: least at
// four in the morning.
func busy(at time.Duration) float64 {
	return 1 - 0.8*math.Cos(2*math.Pi*(at.Hours()-4)/24)
}

// play plays the day.
func (d *traffic) play(r *rand.Rand) (t toll) {
	var policies [2]*limiter.Policy
	for i, limits := range d.tiers {
		policies[i] = compiled(limits...)
	}
	visitors := make([]visitor, d.clients)
	for i := range visitors {
		visitors[i].key = limiter.Key(r.Uint64())
	}
	all := make([]*limiter.Memory, d.instances)
	offsets := make([]time.Duration, d.instances)
	start := func(i int) {
		if all[i] != nil {
			n, _ := all[i].Inherited()
			t.began += n
		}
		all[i] = limiter.NewMemory(d.room, policies[0].Len())
		if d.skew > 0 {
			offsets[i] = time.Duration(r.Int64N(int64(2*d.skew))) - d.skew
		}
		t.starts++
	}
	// A few come often, and most hardly ever: the busiest of a million some 30,000 times a day.
	which := rand.NewZipf(r, 1.1, 50, uint64(d.clients-1))
	who := func(int) int { return int(which.Uint64()) }
	live, deployed, passing := 0, 0, passers{}
	const step = 10 * time.Second
	begins := time.Duration(0)
	if d.each > 0 {
		begins = -48 * time.Hour
	}
	for at := begins; at < 24*time.Hour; at += step {
		if at == 0 && at > begins { // the days before have filled the memory
			n, _ := all[0].Inherited()
			t = toll{starts: t.starts, began: -n} // and the end adds all
		}
		want := d.instances
		if d.autoscale {
			want = max(1, int(float64(d.instances)*busy(noon+at)/1.8))
		}
		for ; live < want; live++ {
			start(live)
		}
		live = want // those beyond are stopped, and will have forgotten
		for ; deployed < len(d.deploys)*d.instances; deployed++ {
			wave, i := deployed/d.instances, deployed%d.instances
			if at < d.deploys[wave]+10*time.Minute*time.Duration(i)/time.Duration(d.instances) {
				break
			}
			if i < live {
				start(i)
			}
		}
		n := int(float64(d.requests)*busy(noon+at)*float64(step)/float64(24*time.Hour) + r.Float64())
		if d.each > 0 {
			here := passing.next(r, n, d.each, len(visitors), func(id int) { visitors[id] = visitor{key: limiter.Key(r.Uint64())} })
			n, who = len(here), func(k int) int { return here[k] }
		}
		for k := range n {
			now := fleet.Midnight.Add(noon + at + step*time.Duration(k)/time.Duration(n))
			id := who(k)
			i := r.IntN(live)
			tier := id / 10 % 10 / 9
			d.ask(&t, policies[tier], d.tiers[tier], all[i], &visitors[id], id, now, now.Add(offsets[i]))
		}
		if at%time.Hour == 0 {
			t.fullest = max(t.fullest, all[0].Fill(fleet.Midnight.Add(noon+at)))
		}
	}
	for _, m := range all {
		if m != nil { // it was needed
			n, _ := m.Inherited()
			t.began += n
		}
	}
	return t
}

// ask sends one request of a visitor to an instance, by the clock of that instance.
func (d *traffic) ask(t *toll, p *limiter.Policy, limits []storeless.Limit, m *limiter.Memory, v *visitor, id int, now, there time.Time) {
	t.requests++
	c := limiter.Candidate{Key: v.key}
	if !drops(id) {
		copy(c.Shown[:], v.shown[:])
	}
	tally, verdict := m.Take(there, p, &c, 1)
	copy(v.shown[:], tally[:])
	room, kind := true, 0
	if drops(id) {
		kind = 1
	}
	for i := range limits {
		room = v.truth[i].room(&limits[i], now) && room
	}
	switch {
	case !verdict.Admitted && room:
		t.early++
	case verdict.Admitted && !room && kind == 0:
		t.late++
	}
	if !verdict.Admitted {
		return
	}
	t.admitted++
	for i := range limits {
		l := &limits[i]
		v.truth[i].count(l, now)
		window := int32(there.Unix() / int64(l.Window/time.Second))
		if window != v.window[i] {
			v.window[i], v.counted[i] = window, 0
		}
		v.counted[i]++
		t.most[kind][i] = max(t.most[kind][i], float64(v.counted[i])/float64(max(l.Quota, l.Burst)))
	}
}

// A mark has all that one client was ever admitted, as one limit sees it, by package truth.
type mark struct {
	at        int64 // of windows the number of the last, of buckets when it is empty again, in µs
	cur, prev int32
}

// room says whether one more may pass a limit at a time.
func (m *mark) room(l *storeless.Limit, now time.Time) bool {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if l.Algorithm == storeless.TokenBucket {
		return truth.Bucket{Quota: l.Quota, Window: w, Burst: l.Burst}.Fits(m.at-us, 1)
	}
	m.roll(us / w)
	return truth.Window{Quota: l.Quota, Length: w}.Fits(us%w, int64(m.prev), int64(m.cur), 1)
}

// count counts one that has passed.
func (m *mark) count(l *storeless.Limit, now time.Time) {
	us, w := now.UnixMicro(), l.Window.Microseconds()
	if l.Algorithm == storeless.TokenBucket {
		m.at = max(m.at, us) + truth.Bucket{Quota: l.Quota, Window: w}.Interval()
		return
	}
	m.roll(us / w)
	m.cur++
}

func (m *mark) roll(window int64) {
	switch {
	case window == m.at+1:
		m.prev, m.cur = m.cur, 0
	case window > m.at+1:
		m.prev, m.cur = 0, 0
	}
	m.at = window
}

// twoLimits are tiers by the minute and by the day.
func twoLimits() [2][]storeless.Limit {
	const aDay = 24 * time.Hour
	return [2][]storeless.Limit{
		{{Quota: 20, Window: time.Minute}, {Quota: 300, Window: aDay}},
		{{Quota: 60, Window: time.Minute}, {Quota: 2000, Window: aDay}},
	}
}

// aDayAtMost is the tier of all where a form is limited by the minute and by the day.
func aDayAtMost(quota int64) [2][]storeless.Limit {
	limits := []storeless.Limit{{Quota: 5, Window: time.Minute}, {Quota: quota, Window: 24 * time.Hour}}
	return [2][]storeless.Limit{limits, limits}
}

// buckets are tiers of GCRA.
func buckets() [2][]storeless.Limit {
	bucket := func(quota, burst int64) []storeless.Limit {
		return []storeless.Limit{{Algorithm: storeless.TokenBucket, Quota: quota, Burst: burst, Window: time.Minute}}
	}
	return [2][]storeless.Limit{bucket(20, 10), bucket(60, 30)}
}

// days are the rows of the table.
func days() []traffic {
	const million = 1_000_000
	twice := []time.Duration{10 * time.Hour, 18 * time.Hour}
	return []traffic{
		{"100", 100, 1 << 15, million, 10 * million, twoLimits(), 0, nil, false, 0},
		{"100, 2 deploys", 100, 1 << 15, million, 10 * million, twoLimits(), 0, twice, false, 0},
		{"100, 2 deploys, clocks ± 2 s", 100, 1 << 15, million, 10 * million, twoLimits(), 2 * time.Second, twice, false, 0},
		{"1,000, 2 deploys", 1000, 1 << 12, million, 10 * million, twoLimits(), 0, twice, false, 0},
		{"11 to 100, as the traffic needs", 100, 1 << 15, million, 10 * million, twoLimits(), 0, nil, true, 0},
		{"100, 2 deploys, buckets", 100, 1 << 15, million, 10 * million, buckets(), 0, twice, false, 0},
		{"1, 50 a day", 1, limiter.DefaultClients, million, 3 * million, aDayAtMost(50), 0, nil, false, 3},
		{"1, 10 a day", 1, limiter.DefaultClients, million, 3 * million, aDayAtMost(10), 0, nil, false, 3},
		{"1, 10 a day, twice `MaxClients`", 1, 2 * limiter.DefaultClients, million, 3 * million, aDayAtMost(10), 0, nil, false, 3},
	}
}

// dayTable: a day of a million clients.
func dayTable(s rows.Seed) pages.Made {
	t := table("day", "instances", "requests", "admitted", "refused under the limit", "admitted over it, echoing", "most of one that echoes, in a minute", "in a day",
		"of one that drops, in a minute", "in a day", "cells in use", "newcomers that begin with a count")
	t.Alone = true
	for _, d := range days() {
		t.Add(false, func() []any {
			r := d.play(s.Random(d.name))
			return []any{
				d.name, r.requests, r.admitted, r.early, r.late, quotas(r.most[0][0]), quotas(r.most[0][1]), quotas(r.most[1][0]), quotas(r.most[1][1]),
				fmt.Sprintf("%.0f %%", 100*r.fullest), int64(r.began),
			}
		})
	}
	return t
}

// quotas writes a number of quotas; 0 is "no limit".
func quotas(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f L", n)
}

// Passers are clients that come once, for some requests within twenty minutes: in this step and others of 120.
type passers struct {
	step, last int
	due        [120][]int
}

// next returns the clients of the next step, by an average number of requests, and begins with new ones. Each has
// the number of one that came a while ago.
func (p *passers) next(r *rand.Rand, requests, each, numbers int, begin func(id int)) (here []int) {
	p.step++
	for range requests {
		if r.IntN(each) > 0 {
			continue
		}
		p.last = (p.last + 1) % numbers
		begin(p.last)
		here = append(here, p.last)
		for range each - 1 {
			later := &p.due[(p.step+1+r.IntN(len(p.due)-1))%len(p.due)]
			*later = append(*later, p.last)
		}
	}
	due := &p.due[p.step%len(p.due)]
	here, *due = append(here, *due...), nil
	return here
}

// compiled compiles limits that are the simulation's own.
func compiled(limits ...storeless.Limit) *limiter.Policy {
	p, err := limiter.Compile("api", limits)
	if err != nil {
		panic(err)
	}
	return p
}

// Each client has been admitted this many requests in the window.
const eachAdmitted = 2

// filled sends clients to a memory that is made for room of them: of IPv4, or of IPv6 with networks of their
// own. The keys are chance of ours: the memory's own seed decides nothing. It returns the share of cells in
// use then, of newcomers the share that begins with a count, and what these begin with on average.
func filled(r *rand.Rand, room, clients int, ipv6 bool) (fill, began, counts float64) {
	p := compiled(storeless.Limit{Quota: rows.Quota, Window: time.Hour})
	wide := [2]*limiter.Policy{p.Scale(8), p.Scale(64)}
	m := limiter.NewMemory(room, 1)
	newcomer := func() limiter.Candidate {
		c := limiter.Candidate{Key: limiter.Key(r.Uint64())}
		if ipv6 {
			c.Networks = []limiter.Network{
				{Key: limiter.Key(r.Uint64()), Policy: wide[0]},
				{Key: limiter.Key(r.Uint64()), Policy: wide[1]},
			}
		}
		return c
	}
	for range clients {
		c := newcomer()
		for range eachAdmitted {
			c.Shown, _ = m.Take(fleet.Midnight, p, &c, 1)
		}
	}
	fill = m.Fill(fleet.Midnight)
	const newcomers = 20_000
	for range newcomers {
		c := newcomer()
		if v := m.Peek(fleet.Midnight, p, &c, 1); v.Inherited > 0 {
			began++
			counts += float64(v.Inherited)
		}
	}
	return fill, began / newcomers, counts / max(1, began)
}

// fillingTable: how many clients a memory is good for.
func fillingTable(s rows.Seed) pages.Made {
	t := table("filling", "clients at once, of `MaxClients`")
	for _, kind := range []string{"IPv4", "IPv6"} {
		t.Head = append(t.Head, kind+": cells in use", "newcomers that begin with a count", "of how many")
	}
	for _, part := range []int{50, 100, 200, 300, 400, 600, 1000} {
		t.Add(true, func() []any {
			cells := []any{fmt.Sprintf("%d %%", part)}
			for _, ipv6 := range []bool{false, true} {
				const room = 1 << 14
				fill, began, counts := filled(s.Random(fmt.Sprint("filling", part, ipv6)), room, room*part/100, ipv6)
				cells = append(cells, fmt.Sprintf("%.0f %%", 100*fill), fmt.Sprintf("%.1f %%", 100*began), fmt.Sprintf("%.1f", counts))
			}
			return cells
		})
	}
	return t
}
