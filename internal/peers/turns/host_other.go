// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package turns

import "time"

// ProcessorTime cannot be told here.
func ProcessorTime() (time.Duration, bool) { return 0, false }
