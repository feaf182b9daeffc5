// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"crypto/fips140"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// Bubble is [synctest.Test], where random bytes can be had in FIPS mode too: their source
// there measures how unevenly the clock runs, and panics in a bubble, whose clock stands.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if fips140.Enabled() {
		cryptotest.SetGlobalRandom(t, 1)
	}
	synctest.Test(t, f)
}

// RunBubble is t.Run of a [Bubble].
func RunBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Bubble(t, f) })
}
