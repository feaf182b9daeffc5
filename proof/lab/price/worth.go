// SPDX-License-Identifier: Apache-2.0

package price

import (
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A use is a policy whose tallies are valued.
type use struct {
	name string
	all  *limiter.Policy // what an address has for nothing
	pass *limiter.Policy // what an own tally carries
	life int64           // of a tally
	had  map[[2]int64]int64
}

func slide(quota int64, window time.Duration) storeless.Limit {
	return storeless.Limit{Quota: quota, Window: window}
}

func newUse(name string, limits ...storeless.Limit) *use {
	policy, err := limiter.Compile("contact", limits)
	if err != nil {
		panic(err) // all of it is constant
	}
	return &use{name, policy, policy.Pass(passTime), int64(policy.PassLife(passTime) / time.Millisecond), map[[2]int64]int64{}}
}

func uses() []*use {
	const aDay = 24 * time.Hour
	return []*use{
		newUse("5/min + 50/day", slide(5, time.Minute), slide(50, aDay)),
		newUse("50/day", slide(50, aDay)),
		newUse("3 in 10 min", slide(3, 10*time.Minute)),
		newUse("5/min", slide(5, time.Minute)),
	}
}

// admitted is how many requests a tally that is bought at one moment admits until
// another: as many as it can be made to.
func (u *use) admitted(from, until int64) int64 {
	life := [2]int64{from, min(until, from+u.life)}
	if _, known := u.had[life]; !known {
		u.had[life] = spent(u.pass, life[0], life[1])
	}
	return u.had[life]
}

// spent is how many requests a tally of a policy admits from one moment until another.
func spent(p *limiter.Policy, from, until int64) (n int64) {
	memory := limiter.NewMemory(64, p.Len())
	tally := limiter.Candidate{Key: memory.Key([]byte("a tally"))}
	for now := from; now < until; {
		_, v := memory.Take(at(now), p, &tally, 1)
		if v.Admitted {
			n++
		} else {
			now += int64(v.Wait / time.Millisecond)
		}
	}
	return n
}

// What the work of others buys at their defaults, in hashes or, of ALTCHA, in compressions of SHA-256, which are what a
// hash of ours is: PBKDF2 of 5,000 iterations, for each of 7,500 numbers on average.
const (
	anubis = int64(65_536)     // difficulty 4: a visit
	capjs  = int64(3_276_800)  // 50 puzzles of 16⁴: a form
	altcha = int64(75_000_000) // a form
)

// rounded is how often a price is paid.
func rounded(purse, price int64) int64 { return (purse + price/2) / price }
