// SPDX-License-Identifier: Apache-2.0

package sim

import "math/rand/v2"

// Passers are clients who come once, for some requests within twenty minutes: in this step and others of 120.
type passers struct {
	step, last int
	due        [120][]int
}

// next returns who comes in the next step, of so many requests on average, and begins with those who are new. Each
// has the number of one that came so many ago.
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
