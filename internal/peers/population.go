// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/http"
	"unsafe"
)

// A Population is a number of clients: for each an address of its own and, once
// issued, a token of its own. Both lie outside of the heap.
type Population struct {
	size      int
	addresses []byte // addressLen each

	lines   []byte // lineLen each: the Cookie line, of which the token is the tail
	lineLen int
	nameLen int // of the Cookie line before the token
}

// Addresses have one length, so that the client can be read back from them in a
// few instructions: see clientOf.
const (
	addressLen = len("10.100.100.100:40000")
	digits     = 150 // each of three octets is one of 100 to 249
	tens       = 90  // the first is one of 10 to 99
	maxClients = tens * digits * digits * digits
)

// NewPopulation returns a population without tokens.
func NewPopulation(size int) (*Population, error) {
	if size < 1 || size > maxClients {
		return nil, fmt.Errorf("a population of %d is not from 1 to %d", size, maxClients)
	}
	addresses, err := offHeap(size * addressLen)
	if err != nil {
		return nil, err
	}
	c := &Population{size: size, addresses: addresses}
	for i := range size {
		appendAddress(addresses[i*addressLen:i*addressLen], i)
	}
	return c, nil
}

// first returns the population of the first n clients of c.
func (c *Population) first(n int) *Population {
	few := *c
	few.size = n
	return &few
}

// appendAddress appends the address and port of client i: for the first three
// millions of clients, one that begins with 10.
func appendAddress(b []byte, i int) []byte {
	return fmt.Appendf(b, "%d.%d.%d.%d:40000",
		10+i/(digits*digits*digits), 100+i/(digits*digits)%digits, 100+i/digits%digits, 100+i%digits)
}

// clientOf returns which client has the address, or a negative number.
func clientOf(address string) int {
	if len(address) != addressLen {
		return -1
	}
	octet := func(at int) int {
		return int(address[at]-'0')*100 + int(address[at+1]-'0')*10 + int(address[at+2]-'0') - 100
	}
	first := int(address[0]-'0')*10 + int(address[1]-'0') - 10
	return ((first*digits+octet(3))*digits+octet(7))*digits + octet(11)
}

// Address returns the address and port of client i.
func (c *Population) Address(i int) string { return view(c.addresses, i*addressLen, addressLen) }

// Cookie returns the Cookie line of client i.
func (c *Population) Cookie(i int) string { return view(c.lines, i*c.lineLen, c.lineLen) }

// Token returns the token of client i.
func (c *Population) Token(i int) string {
	return view(c.lines, i*c.lineLen+c.nameLen, c.lineLen-c.nameLen)
}

// view returns a part of b as a string. The population never changes b again.
func view(b []byte, from, n int) string {
	return unsafe.String(&b[from : from+n][0], n)
}

// Issue gives every client the token that issuer answers its first request
// with. All tokens must have one length; those of one instant have.
func (c *Population) Issue(issuer http.Handler, cookieName string) error {
	s := newSeat(issuer, c, Request{Method: http.MethodPost}, http.StatusOK)
	for i := range c.size {
		s.visit(i)
		tokens := s.w.header[tokenHeader]
		if len(tokens) != 1 || tokens[0] == "" {
			return fmt.Errorf("client %d was issued %d tokens", i, len(tokens))
		}
		line := cookieName + "=" + tokens[0]
		if c.lines == nil {
			c.lineLen, c.nameLen = len(line), len(cookieName)+1
			lines, err := offHeap(c.size * c.lineLen)
			if err != nil {
				return err
			}
			c.lines = lines
		}
		if len(line) != c.lineLen {
			return fmt.Errorf("the token of client %d has %d bytes, those before %d", i, len(line)-c.nameLen, c.lineLen-c.nameLen)
		}
		copy(c.lines[i*c.lineLen:], line)
	}
	return nil
}
