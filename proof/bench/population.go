// SPDX-License-Identifier: Apache-2.0

package main

import "strconv"

// A population is a number of clients: for each an address of its own and, once issued, a token of its own.
type population struct{ addresses, tokens []string }

func newPopulation(size int) *population {
	c := &population{addresses: make([]string, size), tokens: make([]string, size)}
	for i := range c.addresses {
		c.addresses[i] = address(i)
	}
	return c
}

// address returns the address and port of client i, of at most 300 millions. All have one length.
func address(i int) string {
	b, digits := make([]byte, 0, 20), 150 // each of three octets is one of 100 to 249
	for _, octet := range [...]int{10 + i/(digits*digits*digits), 100 + i/(digits*digits)%digits, 100 + i/digits%digits, 100 + i%digits} {
		b = append(strconv.AppendInt(b, int64(octet), 10), '.')
	}
	return string(append(b[:len(b)-1], ":40000"...))
}
