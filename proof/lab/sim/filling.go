// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/pages"
	"github.com/tallystick/tallystick/proof/rows"
	"github.com/tallystick/tallystick/storeless"
)

// compiled compiles limits that are the simulation's own.
func compiled(limits ...storeless.Limit) *limiter.Policy {
	p, err := limiter.Compile("api", limits)
	if err != nil {
		panic(err)
	}
	return p
}

// Each client has been admitted so many requests in the window.
const eachAdmitted = 2

// filled has so many clients come to a memory that is made for room of them: of IPv4, or of
// IPv6 with networks of their own. The keys are chance of ours: the memory's own seed decides
// nothing. It returns the share of cells in use then, of newcomers the share that begins with a count, and
// what these begin with on average.
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
