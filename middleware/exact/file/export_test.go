// SPDX-License-Identifier: Apache-2.0

package file

import "io"

// Counter is the type that Open returns.
type Counter = counter

// Disk and Handle are what a test puts in place of the operating system's.
type (
	Disk   = disk
	Handle = handle
)

// OpenOn is Open on another disk. A file shrinks when it is spare larger than its
// accounts.
func OpenOn(d Disk, path string, spare int64, cfg Config) (*Counter, error) {
	c, err := openOn(d, path, cfg)
	if err == nil {
		c.spare = spare
	}
	return c, err
}

// SystemDisk is the operating system's.
func SystemDisk() Disk { return new(osDisk) }

// OpenSpare is Open, with a file that shrinks when it is spare larger than its accounts.
func OpenSpare(path string, spare int64, cfg Config) (*Counter, error) {
	return OpenOn(new(osDisk), target(path), spare, cfg)
}

// Create is what Open does where there is no file.
func Create(path string) error { return create(new(osDisk), path) }

// Waiting is how many calls wait to be written.
func (c *counter) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// Shrinking reports whether the file is being made smaller.
func (c *counter) Shrinking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shrinking
}

// A Place is where a file stands: End is behind the last group, Torn behind what a crash
// has left of one.
type Place struct {
	End, Torn, Reserved int64
}

// ReadLog reads a file.
func ReadLog(r io.ReaderAt, size int64, account func(name, account []byte)) (Place, error) {
	s, err := readLog(r, size, account)
	return Place{s.end, s.torn, s.reserved}, err
}

// What a file is made of.
var (
	AppendHeadOf  = appendHead
	AppendAccount = appendAccount
	AppendNumber  = appendNumber
)

// AppendHead is the head of a file of today's version.
func AppendHead(b []byte, nonce uint64) []byte { return appendHead(b, version, nonce) }

// GroupAt is where the first group stands.
const GroupAt = groupAt

// Group is a group of a payload.
func Group(kind byte, nonce, sequence uint64, payload []byte) []byte {
	return sealGroup(append(newGroup(nil), payload...), kind, nonce, sequence)
}
