package main

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A use is what an attacker does with the tallies of one policy.
type use struct {
	name string
	pass *storeless.Policy // what an own tally carries
	life int64             // of a tally
	had  map[[2]int64]int64
}

// newUse values the tallies of a policy with these limits.
func newUse(name string, limits ...storeless.Limit) *use {
	policy, err := storeless.Compile("contact", limits)
	if err != nil {
		panic(err) // all of it is constant
	}
	return &use{name: name, pass: passOf(policy), life: hour, had: map[[2]int64]int64{}}
}

// TODO(merge): the real pass.
func passOf(p *storeless.Policy) *storeless.Policy {
	most := int64(1)
	for i := range p.Len() {
		if l := p.Limit(i); l.Window <= time.Hour {
			most = max(most, l.Quota)
		}
	}
	var limits []storeless.Limit
	for i := range p.Len() {
		l := p.Limit(i)
		if l.Window > time.Hour {
			l.Quota = max(most, (l.Quota*int64(time.Hour)+int64(l.Window)-1)/int64(l.Window))
		}
		limits = append(limits, l)
	}
	q, err := storeless.Compile("contact", limits)
	if err != nil {
		panic(err)
	}
	return q
}

// admitted is how many requests a tally that is bought at one moment admits until
// another: as many as it can be made to.
func (u *use) admitted(from, until int64) int64 {
	until = min(until, from+u.life)
	if n, known := u.had[[2]int64{from, until}]; known {
		return n
	}
	memory, n := storeless.NewMemory(64, u.pass.Len()), int64(0)
	tally := storeless.Candidate{Key: memory.Key([]byte("a tally"))}
	for now := from; now < until; {
		_, v := memory.Take(at(now), u.pass, &tally, 1)
		if v.Admitted {
			n++
		} else {
			now += int64(v.Wait / time.Millisecond)
		}
	}
	u.had[[2]int64{from, until}] = n
	return n
}
