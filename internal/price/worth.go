// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

type use struct {
	name string
	pass *limiter.Policy // what an own tally carries
	life int64           // of a tally
	had  map[[2]int64]int64
}

// newUse values the tallies of a policy with these limits.
func newUse(name string, limits ...storeless.Limit) *use {
	policy, err := limiter.Compile("contact", limits)
	if err != nil {
		panic(err) // all of it is constant
	}
	life := int64(policy.PassLife(priceMemory) / time.Millisecond)
	return &use{name: name, pass: policy.Pass(priceMemory), life: life, had: map[[2]int64]int64{}}
}

// admitted is how many requests a tally that is bought at one moment admits until
// another: as many as it can be made to.
func (u *use) admitted(from, until int64) int64 {
	until = min(until, from+u.life)
	if n, known := u.had[[2]int64{from, until}]; known {
		return n
	}
	memory, n := limiter.NewMemory(64, u.pass.Len()), int64(0)
	tally := limiter.Candidate{Key: memory.Key([]byte("a tally"))}
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
