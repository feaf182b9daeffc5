// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
)

// What a frame carries.
const (
	statusFrame   = 's' // how this process is, and which others it hears: the first frame of each end, and one each second
	tellFrame     = 't' // a batch
	answerFrame   = 'a' // to the batch under way
	wantFrame     = 'w' // asks for a chunk of all records: its place
	chunkFrame    = 'c' // the chunk: its place, the place of the next, and records
	farewellFrame = 'f' // this process ends
)

const (
	headLen  = 5       // the length of the content, and the kind
	mostLen  = 1 << 16 // of content
	firstLen = 64      // of content of the first frame: its end may have a recorded hello and no secret
	frameMAC = 16      // a forger has one guess a connection: 128 bits are enough
)

var (
	errForged = errors.New("a frame is not signed by it, or has come out of order")
	errLong   = errors.New("a frame is too long")
)

// A seal signs the frames of one direction of a connection, or verifies them. Their running number is signed and not
// sent: a frame that is lost, moved or repeated is a forgery.
type seal struct {
	mac    hash.Hash
	number uint64
	sum    [sha256.Size]byte
}

func newSeal(key []byte) *seal { return &seal{mac: hmac.New(sha256.New, key)} }

func (s *seal) sign(frame []byte) []byte {
	binary.BigEndian.PutUint64(s.sum[:], s.number)
	s.number++
	s.mac.Reset()
	s.mac.Write(s.sum[:8])
	s.mac.Write(frame)
	return s.mac.Sum(s.sum[:0])[:frameMAC]
}

// append appends a frame to b.
func (s *seal) append(b []byte, kind byte, head, content []byte) []byte {
	from := len(b)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(head)+len(content))), kind)
	b = append(append(b, head...), content...)
	return append(b, s.sign(b[from:])...)
}

// read reads a frame into buf, which it grows, and returns its kind and its content. Whatever is wrong with a frame
// ends the connection.
func (s *seal) read(r io.Reader, buf *[]byte) (kind byte, content []byte, err error) {
	b := append((*buf)[:0], make([]byte, headLen)...)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(b)
	if n > mostLen || s.number == 0 && n > firstLen {
		return 0, nil, errLong
	}
	b = append(b, make([]byte, int(n)+frameMAC)...)
	*buf = b
	if _, err := io.ReadFull(r, b[headLen:]); err != nil {
		return 0, nil, err
	}
	text := b[:headLen+n]
	if !hmac.Equal(s.sign(text), b[len(text):]) {
		return 0, nil, errForged
	}
	return b[headLen-1], text[headLen:], nil
}
