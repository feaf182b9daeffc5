// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd

package wire

import (
	"syscall"
	"time"
)

// processorTime returns the time that this process has spent on processors, of all threads.
func processorTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}
