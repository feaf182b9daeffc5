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
	"github.com/tallystick/tallystick/storeless"
)

// A traffic is the third of days on which clients come to one instance, each once, for a few requests. So the memory is full from the
// beginning of the day, and each client is under its limits: each refusal is early.
type traffic struct {
	name     string
	quota    int64 // of a day, beside 5 a minute
	room     int   // of the memory, in clients
	clients  int   // of a day
	requests int   // of a day
}

// each is how many requests a client sends.
const each = 3

// A visitor is one of the million, and its token.
type visitor struct {
	key   limiter.Key
	shown limiter.Tally
}

type toll struct {
	requests, admitted int64
	fullest            float64
	began              uint64 // newcomers that began with a count
}

// noon is when a day begins here, so that each window of a day ends within it.
const noon = 12 * time.Hour

// busy is how much of the traffic there is at a time of the day, from 0.2 to 1.8: least at
// four in the morning.
func busy(at time.Duration) float64 {
	return 1 - 0.8*math.Cos(2*math.Pi*(at.Hours()-4)/24)
}

// play plays the day, by the decisions of package limiter themselves.
func (d *traffic) play(r *rand.Rand) (t toll) {
	policy := compiled(storeless.Limit{Quota: 5, Window: time.Minute}, storeless.Limit{Quota: d.quota, Window: 24 * time.Hour})
	memory, passing := limiter.NewMemory(d.room, policy.Len()), passers{visitors: make([]visitor, d.clients)}
	before := uint64(0)
	const step = 10 * time.Second
	for at := -48 * time.Hour; at < 24*time.Hour; at += step {
		if at == 0 { // the days before have filled the memory
			before, _ = memory.Inherited()
			t = toll{}
		}
		here := passing.next(r, int(float64(d.requests)*busy(noon+at)*float64(step)/float64(24*time.Hour)+r.Float64()))
		for k, v := range here {
			c := limiter.Candidate{Key: v.key, Shown: v.shown}
			tally, verdict := memory.Take(fleet.Midnight.Add(noon+at+step*time.Duration(k)/time.Duration(len(here))), policy, &c, 1)
			v.shown = tally
			t.requests++
			if verdict.Admitted {
				t.admitted++
			}
		}
		if at%time.Hour == 0 {
			t.fullest = max(t.fullest, memory.Fill(fleet.Midnight.Add(noon+at)))
		}
	}
	began, _ := memory.Inherited()
	t.began = began - before
	return t
}

// days are the rows of the table.
func days() []traffic {
	const million = 1_000_000
	return []traffic{
		{"50 a day", 50, limiter.DefaultClients, million, each * million},
		{"10 a day", 10, limiter.DefaultClients, million, each * million},
		{"10 a day, twice `MaxClients`", 10, 2 * limiter.DefaultClients, million, each * million},
	}
}

// dayTable: a day of a million clients.
func dayTable(s rows.Seed) pages.Made {
	t := table("day", "limit, beside 5 a minute", "requests", "admitted", "refused under the limit", "cells in use", "newcomers that begin with a count")
	t.Alone = true
	for _, d := range days() {
		t.Add(false, func() []any {
			r := d.play(s.Random(d.name))
			return []any{d.name, r.requests, r.admitted, r.requests - r.admitted, fmt.Sprintf("%.0f %%", 100*r.fullest), int64(r.began)}
		})
	}
	return t
}

// Passers are clients that come once, for some requests within twenty minutes: in this step and others of 120.
type passers struct {
	visitors   []visitor
	step, last int
	due        [120][]*visitor
}

// next returns the clients of the next step, by an average number of requests, and begins with new ones. Each takes
// the place of one that came a while ago.
func (p *passers) next(r *rand.Rand, requests int) (here []*visitor) {
	p.step++
	for range requests {
		if r.IntN(each) > 0 {
			continue
		}
		p.last = (p.last + 1) % len(p.visitors)
		v := &p.visitors[p.last]
		*v = visitor{key: limiter.Key(r.Uint64())}
		here = append(here, v)
		for range each - 1 {
			later := &p.due[(p.step+1+r.IntN(len(p.due)-1))%len(p.due)]
			*later = append(*later, v)
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
