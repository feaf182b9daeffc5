// SPDX-License-Identifier: Apache-2.0

package cells

import "sync/atomic"

// Claims count the cells of a column, or of the sales, that the clients of each provider have taken in
// two windows. Providers share counters by chance. At most four counters can hold a quarter of all
// claims, so one other provider in 256 is blamed for such a counter while its sets are full.
type Claims struct {
	total atomic.Uint64
	by    [1 << claimBits]atomic.Uint64
}

const (
	claimBits  = 10
	ClaimsSize = (1<<claimBits + 1) * 8 // bytes

	// A counter holds the number of the window, and the claims of the window before
	// and of this one.
	claimedBits = 27
	mostClaimed = 1<<claimedBits - 1
	windowBits  = 64 - 2*claimedBits
)

// Provider returns the number by which a salted memory counts a provider's claims.
func Provider(provider, salt uint64) uint64 { return Mix(provider ^ salt) }

// Add counts n claims of a provider.
func (c *Claims) Add(window int64, provider, n uint64) {
	claim(&c.total, window, n)
	claim(&c.by[provider>>(64-claimBits)], window, n)
}

// Busy reports whether a provider has claimed a quarter of the cells and a quarter
// of all claims. A flood from everywhere makes no provider busy.
func (c *Claims) Busy(window int64, provider uint64, cells int) bool {
	n := claimed(&c.by[provider>>(64-claimBits)], window)
	return 4*n >= uint64(cells) && 4*n >= claimed(&c.total, window)
}

func claim(counter *atomic.Uint64, window int64, n uint64) {
	for {
		old := counter.Load()
		before, now := claimedIn(old, window)
		next := uint64(window)<<(2*claimedBits) | before<<claimedBits | min(now+n, mostClaimed)
		if counter.CompareAndSwap(old, next) {
			return
		}
	}
}

func claimed(counter *atomic.Uint64, window int64) uint64 {
	before, now := claimedIn(counter.Load(), window)
	return before + now
}

// claimedIn returns the claims of the window before, and of the window.
func claimedIn(counter uint64, window int64) (before, now uint64) {
	before, now = counter>>claimedBits&mostClaimed, counter&mostClaimed
	switch (uint64(window) - counter>>(2*claimedBits)) % (1 << windowBits) {
	case 0:
		return before, now
	case 1:
		return now, 0
	}
	return 0, 0
}
