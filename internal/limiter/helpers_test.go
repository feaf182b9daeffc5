// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/proof/kit"
)

// midnight is a boundary of every window that divides a day, so that scenario
// times read as offsets from the start of a window.
var midnight = time.Unix(19675*86400, 0)

// opening is when a memory is made whose tests say no other time.
var opening = time.Unix(19800*86400, 0)

const (
	second = time.Second
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
	tick   = time.Microsecond // the resolution of every decision
)

func compile(t testing.TB, limits ...limiter.Limit) *limiter.Policy {
	t.Helper()
	return kit.Must(limiter.Compile("test", limits))(t)
}

// tiersOf returns policies of one shape as tiers. Each knows the others.
func tiersOf(policies ...*limiter.Policy) []*limiter.Policy {
	tiers := make([]*limiter.Policy, len(policies))
	for i, p := range policies {
		tiers[i] = p.Among(policies...)
	}
	return tiers
}

// lapse is how far ahead of the clock a mark of p's i-th limit may lie, if p has no
// other tiers: what its bucket can be owed, and the skew. owed is the former.
func lapse(p *limiter.Policy, i int) (lapse, owed int64) {
	l := p.Limit(i)
	owed = l.Burst * interval(l)
	return owed + min(5*second, l.Window/10).Microseconds(), owed
}

// wrong reports whether t has a mark that p takes for one of a wrong clock.
func wrong(p *limiter.Policy, now time.Time, t limiter.Tally) bool {
	for i := range p.Len() {
		if most, _ := lapse(p, i); isBucket(p.Limit(i).Algorithm) && t[i].At-now.UnixMicro() > most {
			return true
		}
	}
	return false
}

// each runs f under a few fixed seeds; the name of the subtest is the seed.
func each(t *testing.T, seeds int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			f(t, rand.New(rand.NewPCG(seed, 0x7a11)))
		})
	}
}

// algorithms are all of them, for properties that hold whatever the arithmetic.
var algorithms = []limiter.Algorithm{
	limiter.SlidingWindow, limiter.FixedWindow, limiter.TokenBucket, limiter.LeakyBucket,
}

func isBucket(a limiter.Algorithm) bool {
	return a == limiter.TokenBucket || a == limiter.LeakyBucket
}

// take asks for one tally that shows nothing: the memory alone decides.
func take(m *limiter.Memory, p *limiter.Policy, now time.Time, key limiter.Key, cost int64) limiter.Verdict {
	_, v := m.Take(now, p, &limiter.Candidate{Key: key}, cost)
	return v
}

// drain takes units of one until the first refusal, and returns how many passed;
// it gives up on a limiter that never refuses.
func drain(m *limiter.Memory, p *limiter.Policy, now time.Time, f limiter.Candidate) (n int64) {
	for n < 1e6 {
		if _, v := m.Take(now, p, &f, 1); !v.Admitted {
			break
		}
		n++
	}
	return n
}

// numbered is the n-th key of a kind.
func numbered(m *limiter.Memory, kind byte, n int) limiter.Key {
	identity := [9]byte{kind}
	binary.LittleEndian.PutUint64(identity[1:], uint64(n))
	return m.Key(identity[:])
}

func TestMain(m *testing.M) {
	kit.CollectLess()
	os.Exit(m.Run())
}
