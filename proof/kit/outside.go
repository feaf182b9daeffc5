// SPDX-License-Identifier: Apache-2.0

package kit

import "testing"

// Outside skips a test under the race detector whose work is done by other programs, such as the
// go command: the detector sees nothing of them. "make whole" runs it, without the detector.
func Outside(t testing.TB) {
	t.Helper()
	if Race && !Long() {
		t.Skip("other programs do the work, and the race detector sees nothing of them; make whole runs it")
	}
}
