// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The runtime allocates in sizes: the one after 704 bytes is 768. With one word too many each request costs 64 bytes
// more, and what clears and collects them. Sizes are those of 64-bit machines; on others all is smaller.
func TestWhatARequestKeepsFitsItsAllocation(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(decisionContext{}), uintptr(704),
		"what every request allocates has grown beyond the allocator's class of 704 bytes: the next is 768, for each request.\n"+
			"A field that few decisions have goes where the rare ones are, which are allocated only then; integers that are small\n"+
			"can be int32, or share a word; what is the same for all requests has no place here. If every request needs it: raise this to 768, and show \"make bench\" before and after.")
}
