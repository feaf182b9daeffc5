// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An unknown knows which clients have shown what no secret of ours has signed.
type unknown struct {
	looked atomic.Int64 // the second of the last look

	mu    sync.Mutex
	since int64 // Unix seconds
	who   []client
}

// A client is a network of which nobody has many, or a customer.
type client struct {
	network netip.Prefix
	name    string
}

const (
	manyUnknown    = 4       // clients
	unknownWithin  = 60 * 60 // seconds: forms may have few visitors
	longestUnknown = 64      // bytes of a name
)

// note notes a client, and reports whether there are many.
func (u *unknown) note(now time.Time, id *Identity) bool {
	last, second := u.looked.Load(), now.Unix()
	if second == last || !u.looked.CompareAndSwap(last, second) {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if age := second - u.since; age >= unknownWithin || age <= -unknownWithin {
		u.since, u.who = second, u.who[:0]
	}
	if one := clientOf(id); len(u.who) < manyUnknown && !slices.Contains(u.who, one) {
		u.who = append(u.who, one)
	}
	return len(u.who) == manyUnknown
}

// clientOf returns what is counted as one client of id. Of the Internet that is what one customer of a
// host may have at once, see surgeNetwork; of networks of one's own, where nobody has many, an address.
func clientOf(id *Identity) client {
	if id.kind != kindAddress {
		return client{name: strings.Clone(id.text[:min(int(id.named), longestUnknown)])} // one customer, whatever it asks for
	}
	addr := id.home()
	bits := 29
	switch {
	case near(addr):
		bits = addr.BitLen()
	case addr.Is4():
		bits = 16
	}
	network, _ := addr.Prefix(bits)
	return client{network: network}
}
