// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd

package turns

import (
	"syscall"
	"time"
)

// ProcessorTime returns the time that this process has spent on processors, of
// all of its threads, and whether it can be told. Other programs on the machine
// disturb it far less than the time on the wall.
func ProcessorTime() (time.Duration, bool) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, false
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), true
}
