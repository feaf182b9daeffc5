// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A file is a head, a snapshot of all accounts, a mark that ends it, and the log of what
// was written since. Behind the log are zeros, which keep room for more of it:
//
//	head      "tallystick\n", version u8, nonce u64, CRC32C of the 20 bytes before u32
//	group     "tyG", kind u8, size of the payload u32, sequence u64, CRC32C of the payload
//	          u32, CRC32C of the 20 bytes before u32; payload; zeros; end u64: the nonce
//	          xor the sequence, and its highest bit
//	payload   records: 'a', name and account, each behind its length; 'n', how many
//	          accounts the snapshot has; 'r', how many bytes the file has at least.
//	          Lengths and numbers are varints.
//
// Numbers are little endian. The kinds are 'S', a part of the snapshot, 'E', its end, and 'L',
// one commit of the log. A group takes a multiple of 8 bytes, so that its end crosses no
// sector: it is on disk or it is not. Its last byte is not zero, so that it ends where zeros
// begin. The end tells the sequence. So a lost group is missed even if only the end of a later
// one is left; otherwise that end would look like the rest of the lost group. Every checksum
// begins with the random nonce, and the nonce masks every end. So neither a piece of another
// file that the disk has kept, nor a key that a client has chosen, can pass for a group of this
// file, or for its end.
//
// The version rises when any of this changes.
const (
	magic   = "tallystick\n"
	version = 2

	headSize      = len(magic) + 1 + 8 + 4
	groupAt       = 24 // the first group: the head, in whole 8 bytes
	groupHeadSize = 24
	align         = 8
	groupMagic    = "tyG"
	groupEndSize  = 8
	sector        = 512

	kindSnapshot = 'S'
	kindEnd      = 'E'
	kindLog      = 'L'

	tagAccount  = 'a'
	tagNumber   = 'n'
	tagReserved = 'r'
)

var (
	little     = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// seed begins the checksums of a file.
func seed(nonce uint64) uint32 {
	return crc32.Checksum(little.AppendUint64(nil, nonce), castagnoli)
}

func appendHead(b []byte, version byte, nonce uint64) []byte {
	b = append(append(b, magic...), version)
	b = little.AppendUint64(b, nonce)
	return little.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHead returns the nonce of a file.
func parseHead(b []byte) (nonce uint64, err error) {
	sum := headSize - 4
	switch {
	case len(b) == 0:
		return 0, fmt.Errorf("%w: it has no bytes", ErrDamaged)
	case len(b) < headSize || string(b[:len(magic)]) != magic:
		return 0, fmt.Errorf("%w: it is not a counter's file", ErrDamaged)
	case little.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli):
		return 0, fmt.Errorf("%w: its head is not as it was written", ErrDamaged)
	}
	if is := b[len(magic)]; is != version {
		return 0, fmt.Errorf("file: written in layout %d, and this version of Tallystick reads %d; open it with the one that wrote it", is, version)
	}
	return little.Uint64(b[len(magic)+1:]), nil
}

// A group is written in one go: as the head says, or not at all.
type groupHead struct {
	kind     byte
	size     uint32 // of the payload
	sequence uint64
	sum      uint32 // of the payload
}

// span is how many bytes a group takes.
func (g *groupHead) span() int64 { return span(int64(g.size)) }

func span(payload int64) int64 {
	return (groupHeadSize + payload + groupEndSize + align - 1) / align * align
}

// newGroup begins a group: the payload is appended to it.
func newGroup(b []byte) []byte {
	return append(b[:0], make([]byte, groupHeadSize)...)
}

// sealGroup ends a group that newGroup has begun.
func sealGroup(b []byte, kind byte, nonce, sequence uint64) []byte {
	payload := b[groupHeadSize:]
	start := seed(nonce)
	copy(b, groupMagic)
	b[3] = kind
	little.PutUint32(b[4:], uint32(len(payload)))
	little.PutUint64(b[8:], sequence)
	little.PutUint32(b[16:], crc32.Update(start, castagnoli, payload))
	little.PutUint32(b[20:], crc32.Update(start, castagnoli, b[:20]))
	for full := span(int64(len(payload))) - groupEndSize; int64(len(b)) < full; {
		b = append(b, 0)
	}
	return little.AppendUint64(b, groupEnd(nonce, sequence))
}

// endBit is in every end, whatever the nonce is: its last byte is not zero.
const endBit = 1 << 63

func groupEnd(nonce, sequence uint64) uint64 { return (nonce ^ sequence) | endBit }

// endOf returns the sequence whose end 8 bytes would be. Any 8 bytes are the end of
// some group; bytes that are no end give one far away.
func endOf(end, nonce uint64) (sequence uint64) { return (end ^ nonce) &^ endBit }

// parseGroupHead reports whether b begins with the head of a group.
func parseGroupHead(b []byte, start uint32) (g groupHead, ok bool) {
	if len(b) < groupHeadSize || string(b[:len(groupMagic)]) != groupMagic ||
		little.Uint32(b[20:]) != crc32.Update(start, castagnoli, b[:20]) {
		return g, false
	}
	return groupHead{kind: b[3], size: little.Uint32(b[4:]), sequence: little.Uint64(b[8:]), sum: little.Uint32(b[16:])}, true
}

// holds reports whether b, which has what stands behind the head, is as it was written.
func (g *groupHead) holds(b []byte, nonce uint64) bool {
	payload, rest := b[:g.size], b[g.size:]
	pad, end := rest[:len(rest)-groupEndSize], rest[len(rest)-groupEndSize:]
	return g.sum == crc32.Update(seed(nonce), castagnoli, payload) && allZero(pad) &&
		little.Uint64(end) == groupEnd(nonce, g.sequence)
}

func allZero(b []byte) bool { return len(bytes.TrimRight(b, "\x00")) == 0 }

func appendAccount(b []byte, name string, account []byte) []byte {
	b = binary.AppendUvarint(append(b, tagAccount), uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(len(account)))
	return append(b, account...)
}

func appendNumber(b []byte, tag byte, n uint64) []byte {
	return binary.AppendUvarint(append(b, tag), n)
}

// A record is an account, or a number.
type record struct {
	tag           byte
	name, account []byte
	number        uint64
}

// nextRecord takes a record from the front of a payload.
func nextRecord(b []byte) (r record, rest []byte, ok bool) {
	if len(b) == 0 {
		return r, nil, false
	}
	r.tag, b = b[0], b[1:]
	switch r.tag {
	case tagAccount:
		if r.name, b, ok = nextBytes(b); ok {
			r.account, b, ok = nextBytes(b)
		}
		return r, b, ok
	case tagNumber, tagReserved:
		n, length := binary.Uvarint(b)
		if length <= 0 {
			return r, nil, false
		}
		r.number = n
		return r, b[length:], true
	}
	return r, nil, false
}

func nextBytes(b []byte) (part, rest []byte, ok bool) {
	n, length := binary.Uvarint(b)
	if length <= 0 || n > uint64(len(b)-length) {
		return nil, nil, false
	}
	b = b[length:]
	return b[:n], b[n:], true
}
