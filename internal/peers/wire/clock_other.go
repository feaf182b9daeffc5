// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package wire

import (
	"errors"
	"time"
)

// processorTime cannot be told here, and the time on the wall tells something else.
func processorTime() (time.Duration, error) {
	return 0, errors.New("wire: this system does not tell the processor time of a process")
}
