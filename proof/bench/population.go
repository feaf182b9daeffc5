// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"unsafe"
)

// A population is a number of clients: for each an address of its own and, once issued, a token of its
// own. Both lie outside of the heap: the collector is paced by what a limiter keeps.
type population struct {
	size              int
	addresses, tokens []byte
	length            int // of each token
}

// Addresses have one length.
const (
	addressLen = len("10.100.100.100:40000")
	digits     = 150 // each of three octets is one of 100 to 249
)

func newPopulation(size int) *population {
	c := &population{size: size, addresses: offHeap(size * addressLen)}
	for i := range size {
		appendAddress(c.addresses[i*addressLen:i*addressLen], i)
	}
	return c
}

// appendAddress appends the address and port of client i, of at most 300 millions.
func appendAddress(b []byte, i int) []byte {
	return fmt.Appendf(b, "%d.%d.%d.%d:40000",
		10+i/(digits*digits*digits), 100+i/(digits*digits)%digits, 100+i/digits%digits, 100+i%digits)
}

func (c *population) address(i int) string { return view(c.addresses, i, addressLen) }
func (c *population) token(i int) string   { return view(c.tokens, i, c.length) }

// view returns the i-th part of b as a string. It never changes again.
func view(b []byte, i, n int) string { return unsafe.String(&b[i*n], n) }
