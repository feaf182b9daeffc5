// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/testkit"
)

// moreAllocations is what to do where a call allocates that did not.
const moreAllocations = "it allocates more than it did. To see where: go test -run '^$' -bench . -memprofilerate 1 -memprofile mem.out ./pow,\n" +
	"and go tool pprof -sample_index=alloc_objects mem.out. Keep it on the stack, or in what the caller has already:\n" +
	"each request, and each forged one, pays for it. Raise a budget only with a reason in the commit."

// TestAllocations: neither a good proof nor a flood of bad ones makes garbage.
func TestAllocations(t *testing.T) {
	is := newIssuer(t, secretA)
	proof := solved(t, is, 16)
	forged := strings.Replace(proof, proof[100:104], "AAAA", 1)
	huge := strings.Repeat(proof, 1<<16)
	verify := func(b Binding, p string, now time.Time) func() {
		return func() { _, _ = is.Verify(now, b, p) }
	}
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"issue":       {1, func() { _, _ = is.Issue(epoch, alice, 16) }},
		"verify":      {0, verify(alice, proof, epoch)},
		"forged":      {0, verify(alice, forged, epoch)},
		"expired":     {0, verify(alice, proof, time.Time{})},
		"binding":     {0, verify(Binding{}, proof, epoch)},
		"wrong":       {0, verify(alice, proof+"0", epoch)},
		"huge":        {0, verify(alice, huge, epoch)},
		"huge answer": {0, verify(alice, proof+strings.Repeat("1", 300), epoch)},
		"alphabet":    {0, verify(alice, "!"+proof[1:], epoch)},
		"parse huge":  {0, func() { _, _ = parse(huge) }},
		"field huge":  {0, func() { _, _ = ParseHeader(huge) }},
	} {
		t.Run(name, func(t *testing.T) {
			if testkit.Race {
				// The race detector makes sync.Pool forget at random.
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 10 {
					c.f()
				}
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(huge)))
				return
			}
			require.LessOrEqual(t, testing.AllocsPerRun(1000, c.f), c.most, moreAllocations)
		})
	}
}
