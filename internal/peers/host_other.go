// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package peers

// offHeap returns memory of the heap: here the clients do pace the collector.
func offHeap(size int) ([]byte, error) { return make([]byte, size), nil }
