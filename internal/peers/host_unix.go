// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd

package peers

import (
	"fmt"
	"syscall"
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
