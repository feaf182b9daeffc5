// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

// The runtime allocates in sizes: the one after 704 bytes is 768, and 8 of them are its own. With one word too many each
// request costs 64 bytes more, and what clears and collects them. Sizes are those of 64-bit machines; on
// others all is smaller.
func TestWhatARequestKeepsFitsItsAllocation(t *testing.T) {
	if kit.Race {
		t.Skip("the race detector allocates on its own")
	}
	for _, test := range []struct {
		class uint64
		outer *decisionContext
	}{{704, nil}, {896, new(decisionContext)}} {
		const times = 10_000
		least := ^uint64(0)
		for range 3 { // what servers of other tests allocate as they end is not the request's
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				kept, _ = newContext(t.Context(), test.outer)
			}
			runtime.ReadMemStats(&after)
			least = min(least, (after.TotalAlloc-before.TotalAlloc)/times)
		}
		require.LessOrEqual(t, least, test.class,
			"what every request allocates, alone or inside of another middleware, has grown beyond the allocator's class: the next is larger by 64 bytes or more, for each request.\n"+
				"A field that few decisions have goes where the rare ones are, which are allocated only then; integers that are small\n"+
				"can be int32, or share a word; what is the same for all requests has no place here. If every request needs it: raise this, and show \"make bench\" before and after.")
	}
}

var kept *decisionContext // on the heap, as of a request
