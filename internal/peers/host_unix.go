// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd

package peers

import (
	"fmt"
	"syscall"
	"time"
)

// offHeap returns zeroed memory that the garbage collector neither counts nor
// scans. It is never given back: a limiter may have kept a string of it.
func offHeap(size int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("no room for %d bytes of clients: %w", size, err)
	}
	return b, nil
}

// processorTime returns the time that this process has spent on processors, of
// all of its threads, and whether it can be told. Other programs on the machine
// disturb it far less than the time on the wall.
func processorTime() (time.Duration, bool) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, false
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), true
}
