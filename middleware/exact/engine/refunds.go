// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/internal/receipt"
)

// Refundable is how many of the last charges of a key can be given back, each once. An earlier one
// does not come back, see [exact.ErrLateRefund].
const Refundable = receipt.Refundable

// The numbers of an account's charges begin at a multiple of Refundable, near to the microseconds
// since 1970. So they are none that the key had before: less than one charge a microsecond was
// made since; but for an account that was forgotten ([Archive]), if it begins at the same multiple
// as before. And those below the multiple are no charges, until the account has passed the next.
func firstSerial(at time.Time) uint64 { return whole(uint64(max(0, unixMicro(at)))) }

func whole(serial uint64) uint64 { return serial - serial%Refundable }

// refunds say which charges of an account cannot be given back any more: those up to a floor,
// and some above it. That takes a bit for each of the last charges, and of most keys far less:
// where everything comes back soon, as what is settled does, the floor follows.
type refunds struct {
	floor uint64 // no charge up to this one comes back
	some  []byte // of those above it, beginning with its successor's byte: by number/8 and number%8
}

// at returns where the bit of a charge above the floor is.
func (b *refunds) at(number uint64) (i uint64, bit byte) {
	return number/8 - (b.floor+1)/8, 1 << (number % 8)
}

// give notes that a charge is given back, of an account whose last is serial, unless it was
// before.
func (b *refunds) give(number, serial uint64) bool {
	b.follow(receipt.Lowest(serial))
	if number <= b.floor {
		return false
	}
	i, bit := b.at(number)
	if n := uint64(len(b.some)); n <= i {
		b.some = append(b.some, make([]byte, i+1-n)...)
	}
	if b.some[i]&bit != 0 {
		return false
	}
	b.some[i] |= bit
	return true
}

// follow raises the floor, and over all that was given back without a gap.
func (b *refunds) follow(floor uint64) {
	b.raise(floor)
	for len(b.some) > 0 {
		from := (b.floor + 1) % 8
		n := uint64(bits.TrailingZeros8(^(b.some[0] >> from)))
		if n == 0 {
			return
		}
		b.raise(b.floor + n)
	}
}

// raise raises the floor.
func (b *refunds) raise(floor uint64) {
	if floor <= b.floor {
		return
	}
	gone := (floor+1)/8 - (b.floor+1)/8
	b.floor, b.some = floor, b.some[min(gone, uint64(len(b.some))):]
	if len(b.some) > 0 {
		b.some[0] &= 0xff << ((floor + 1) % 8)
	}
	b.trim()
}

// trim leaves no zeros behind the last that was given back.
func (b *refunds) trim() {
	n := len(b.some)
	for n > 0 && b.some[n-1] == 0 {
		n--
	}
	if b.some = b.some[:n]; n == 0 {
		b.some = nil
	}
}

// Forms in which it is written: nothing has come back of an account with few charges, or of one
// with many; how far the floor is behind the last serial, and what is above it; or a ring.
const (
	formFew = iota
	formSome
	formRing
	formMany
)

// append writes what there is, and says in which form.
func (b *refunds) append(to []byte, serial uint64) (_ []byte, form byte) {
	lowest := receipt.Lowest(serial)
	b.follow(lowest)
	switch n := len(b.some); {
	case n == 0 && b.floor == whole(serial):
		return to, formFew
	case n == 0 && b.floor == lowest:
		return to, formMany
	case n <= receipt.RingSize-4 || lowest == 0: // what stands before it takes four bytes
		to = binary.AppendUvarint(to, serial-b.floor)
		to = binary.AppendUvarint(to, uint64(n))
		return append(to, b.some...), formSome
	}
	return append(to, receipt.Ring(b.floor, b.some, serial)...), formRing
}

// refunds reads what append has written.
func (d *decoder) refunds(serial uint64, form byte) (b refunds) {
	switch form {
	case formFew:
		b.floor = whole(serial)
	case formMany:
		b.floor = receipt.Lowest(serial)
	case formSome:
		b.floor = serial - d.atMost(serial)
		b.some = append(b.some, d.bytes(d.length(receipt.RingSize+1))...) // one more: of the first charges the last is in a byte of its own
		if n := uint64(len(b.some)); n > 0 {
			last := b.some[n-1]
			highest := ((b.floor+1)/8+n)*8 - 1 - uint64(bits.LeadingZeros8(last))
			d.failed = d.failed || last == 0 || highest > serial || b.some[0]&(2<<((b.floor+1)%8)-1) != 0
		}
	case formRing:
		d.failed = d.failed || serial <= Refundable
		b.floor, b.some = receipt.Lowest(serial), receipt.Unring(d.bytes(receipt.RingSize), serial)
		b.trim()
	}
	return b
}
