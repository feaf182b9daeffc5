// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"os"
	"runtime/debug"
)

// CollectLess is for a TestMain of tests that make memories of megabytes one after the other:
// collecting them took up to a third of the time. GOGC in the environment is obeyed.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(350 << 20) // of what two processors build beside it
	}
}
