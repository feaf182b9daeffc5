// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// A Room says how often new tallies find the cells of their set taken, and some taken
// twice, in a memory under load.
type Room struct {
	Tallies  int // that the memory is made for
	Live     int // tallies that were there before
	Probes   int // new tallies on top of them, in all trials
	Refused  int // of those, how many began with a count that was not theirs
	Expected float64

	trials int
}

// Predicted returns the probability by the formula, Measured that of the trials.
func (r Room) Predicted() float64 { return r.Expected / float64(r.Probes) }

// Measured returns the share of probes that began with something.
func (r Room) Measured() float64 { return float64(r.Refused) / float64(r.Probes) }

// Sigma returns the standard deviation of Measured. The probes of one trial are
// not independent: they meet the same full sets.
func (r Room) Sigma() float64 {
	p := r.Predicted()
	sets := float64(r.Tallies) * cellsPerClient / setSize
	return math.Sqrt(p * (1 - p) * (1/float64(r.Probes) + 1/(sets*float64(r.trials))))
}

// maxTrials bounds what is spent where next to nothing is to be found.
const maxTrials = 1000

// MeasureRoom fills memories made for tallies with live ones, each in a new
// memory, until the given number of probes was made or it has tried often
// enough. A probe is a tally more; there are few for each memory, so that they
// hardly add to its load, and the formula is taken at the load that they do make.
func MeasureRoom(tallies, live, probes int) Room {
	r := Room{Tallies: tallies, Live: live}
	each := max(1, live/50)
	middle := mean(tallies, float64(live)+float64(each)/2)
	for r.Probes < probes && r.trials < maxTrials {
		c := newCounter(tallies)
		for range live {
			c.take(random(), 1)
		}
		for range each {
			if _, v := c.take(random(), 1); v.Inherited > 0 {
				r.Refused++
			}
		}
		r.trials++
		r.Probes += each
		r.Expected += float64(each) * over(middle)
	}
	return r
}

// quota is more than any tally of a measurement uses up.
const quota = 1_000_000

// A counter is a memory with a policy and an instant.
type counter struct {
	memory *limiter.Memory
	policy *limiter.Policy
	now    time.Time
}

func newCounter(tallies int) *counter { return newCounterOf(tallies, quota) }

func newCounterOf(tallies int, quota int64) *counter {
	p, err := limiter.Compile("memory", []storeless.Limit{{Quota: quota, Window: time.Hour}})
	if err != nil {
		panic(err) // it is a good limit
	}
	return &counter{memory: limiter.NewMemory(tallies, 1), policy: p, now: time.Now()}
}

// take asks for a tally that shows no token.
func (c *counter) take(k limiter.Key, cost int64) (limiter.Tally, storeless.Verdict) {
	return c.memory.Take(c.now, c.policy, &limiter.Candidate{Key: k}, cost)
}

// random returns the key of a tally that nobody has met.
func random() limiter.Key { return limiter.Key(rand.Uint64()) }
