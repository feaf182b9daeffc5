// What came back of a key: package engine's refunds.go, in JavaScript. A floor, up to which no charge
// comes back any more, and the bits of some above it. The bits begin in the byte of the first of
// those, by serial/8. They are a kilobyte at most, and few where all of it comes back soon.

const REFUNDABLE = 8192 // how many of the last charges can be given back
const byteOf = (serial) => Math.floor(serial / 8)

// firstSerial returns what a key begins after: no serial is one that it has had before.
export const firstSerial = (at) => Math.max(0, at - (at % REFUNDABLE))

// late reports whether a charge is none of the last.
export const late = (number, serial) => serial - number >= REFUNDABLE

export class Back {
	constructor(floor = 0, bits = []) {
		this.floor = floor
		this.bits = bits
	}

	// give notes that a charge is given back, unless it was before.
	give(number, serial) {
		this.raise(serial - REFUNDABLE)
		if (number <= this.floor) return false
		const i = byteOf(number) - byteOf(this.floor + 1)
		const bit = 1 << number % 8
		while (this.bits.length <= i) this.bits.push(0)
		if (this.bits[i] & bit) return false
		this.bits[i] |= bit
		while (this.bits.length > 0 && this.bits[0] >> (this.floor + 1) % 8 & 1) this.raise(this.floor + 1)
		return true
	}

	raise(floor) {
		if (floor <= this.floor) return
		const gone = byteOf(floor + 1) - byteOf(this.floor + 1)
		if (gone > 0) this.bits = this.bits.slice(gone)
		this.floor = floor
		if (this.bits.length > 0) this.bits[0] &= 0xff << (floor + 1) % 8
		if (this.bits.length === 1 && this.bits[0] === 0) this.bits = []
	}

	// bytes returns the bits as they are kept: of the last charges the newest may be in one byte
	// with the oldest.
	bytes() {
		const all = Uint8Array.from(this.bits.slice(0, REFUNDABLE / 8))
		if (this.bits.length > all.length) all[0] |= this.bits.at(-1)
		return all
	}

	// read returns what is above a floor, as bytes has returned it.
	static read(floor, bytes) {
		const bits = [...bytes]
		if (bits.length < REFUNDABLE / 8) return new Back(floor, bits)
		const newest = bits[0] & ~(0xff << (floor + 1) % 8)
		bits[0] -= newest
		return new Back(floor, newest > 0 ? [...bits, newest] : bits)
	}
}
