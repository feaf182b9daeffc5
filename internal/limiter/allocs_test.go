// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
)

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run TestAllocations -memprofilerate 1 -memprofile mem.out ./internal/limiter,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// Nothing that runs for each request allocates: not for a hot tally, not for
// one never seen, and not in the widest case.
func TestAllocations(t *testing.T) {
	limits := make([]limiter.Limit, limiter.MaxLimits)
	for i := range limits {
		limits[i] = limiter.Limit{Name: string(rune('a' + i)), Algorithm: algorithms[i%2], Quota: 1 << 30, Window: minute}
	}
	p := compile(t, limits...)
	m := limiter.NewMemory(64, limiter.MaxLimits)
	var a, b limiter.Tally
	a, _ = p.Step(midnight, a, 1)
	b, _ = p.Step(midnight, b, 2)
	wide := []limiter.Network{{Key: 100, Policy: p.Scale(8)}, {Key: 200, Policy: p.Scale(64)}}
	candidates := []limiter.Candidate{{Key: 1, Shown: a, Networks: wide}, {Key: 2, Shown: b, Networks: wide}, {Key: 3}}
	identity := []byte("192.0.2.1")
	n := 0
	for name, f := range map[string]func(){
		"Step":          func() { a, _ = p.Step(midnight, a, 1) },
		"Step, refused": func() { p.Step(midnight, a, 1<<30) },
		"Take":          func() { m.Take(midnight, p, &candidates[2], 1) },
		"Take, new":     func() { n++; candidates[2].Key = stranger(m, n); m.Take(midnight, p, &candidates[2], 1) },
		"Take, wide":    func() { m.Take(midnight, p, &candidates[0], 1) },
		"Take, nil":     func() { (*limiter.Memory)(nil).Take(midnight, p, &candidates[0], 1) },
		"Choose":        func() { m.Choose(midnight, p, candidates, 1) },
		"Choose, one":   func() { m.Choose(midnight, p, candidates[:1], 1) },
		"Merge":         func() { b = p.Merge(midnight, a, b) },
		"Exceeds":       func() { p.Exceeds(midnight, a, b) },
		"Expires":       func() { p.Expires(&a) },
		"Key":           func() { m.Key(identity) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), "%s: %s", name, moreAllocations)
	}
}
