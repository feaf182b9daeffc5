// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// two speaks HTTP/2 without TLS, as much as one client needs that sends one request after
// the other (RFC 9113). Fields that change are sent as literals that are never indexed, which
// RFC 7541 section 7.1.3 advises for what is hard to guess, and compressed by Huffman; the
// rest is in the table from the first request on. The server compresses as it likes.
type two struct {
	conn     net.Conn
	in       *bufio.Reader
	first    []byte // the first request, which fills the table
	requests [different][]byte
	stream   uint32
	asked    bool
	block    []byte // of the last answer's fields
	data     int    // bytes of its body
	seen     [2]int // answers, and bytes of their blocks
	decoder  *hpack.Decoder
	fields   http.Header
}

// Frames and flags of RFC 9113 section 6.
const (
	frameHead = 9

	dataFrame, headersFrame, settingsFrame, windowFrame = 0, 1, 4, 8

	endStream, ack, endHeaders = 1, 1, 4
)

func newTwo(conn net.Conn, s *Shape) (link, error) {
	l := &two{conn: conn, in: bufio.NewReader(conn), stream: 1}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func(i int) []byte {
		block.Reset()
		var err error
		add := func(name, value string, changes bool) {
			err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: changes}))
		}
		add(":method", "POST", false)
		add(":scheme", "http", false)
		add(":path", "/contact", false)
		add(":authority", "wire.test", false)
		add("user-agent", "wire", false)
		add("content-length", "0", false)
		for k := range s.Sends {
			add(strings.ToLower(s.Sends[k].Name), s.Sends[k].value(i), true)
		}
		if err != nil {
			panic(err) // a bytes.Buffer takes all
		}
		return frame(headersFrame, endStream|endHeaders, block.Bytes())
	}
	l.first = encode(0)
	for i := range l.requests {
		l.requests[i] = encode(i)
	}
	l.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		l.fields.Add(f.Name, f.Value)
	})
	var hello bytes.Buffer
	hello.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	hello.Write(frame(settingsFrame, 0, nil))
	hello.Write(frame(windowFrame, 0, binary.BigEndian.AppendUint32(nil, 1<<31-1-65535))) // for all that is sent
	_, err := conn.Write(hello.Bytes())
	return l, err
}

// frame returns a frame of stream 0.
func frame(kind, flags byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(append(b, flags, 0, 0, 0, 0), payload...)
}

// read implements link.
func (l *two) read(i int) (http.Header, string, error) {
	if err := l.ask(i); err != nil {
		return nil, "", err
	}
	l.fields = make(http.Header)
	if _, err := l.decoder.Write(l.block); err != nil {
		return nil, "", err
	}
	if status := l.fields[":status"]; len(status) == 0 {
		// The name of a pseudo-header is no token: Add has left it as it is.
		return nil, "", errors.New("no status")
	}
	return l.fields, strings.Repeat("?", l.data), l.last()
}

// ask implements link.
func (l *two) ask(i int) error {
	request := l.requests[i]
	if !l.asked {
		l.asked, request = true, l.first
	}
	binary.BigEndian.PutUint32(request[5:], l.stream)
	if _, err := l.conn.Write(request); err != nil {
		return err
	}
	for {
		head, err := l.in.Peek(frameHead)
		if err != nil {
			return err
		}
		size, kind, flags := int(binary.BigEndian.Uint32(head)>>8), head[3], head[4]
		stream := binary.BigEndian.Uint32(head[5:])
		all, err := l.in.Peek(frameHead + size)
		if err != nil {
			return err
		}
		payload := all[frameHead:]
		switch {
		case kind == headersFrame && stream == l.stream && flags&endHeaders != 0 && size > 0:
			l.block = append(l.block[:0], payload...)
			l.seen[0]++
			l.seen[1] += size
		case kind == dataFrame && stream == l.stream:
			l.data = size
		case kind == settingsFrame && flags&ack == 0:
			if _, err := l.conn.Write(frame(settingsFrame, ack, nil)); err != nil {
				return err
			}
		case kind != settingsFrame && kind != windowFrame:
			return fmt.Errorf("a frame of type %d for stream %d: %q", kind, stream, payload)
		}
		if _, err := l.in.Discard(frameHead + size); err != nil {
			return err
		}
		if stream == l.stream && flags&endStream != 0 {
			l.stream += 2
			return nil
		}
	}
}

// last implements link: the status 200 is entry 8 of the static table.
func (l *two) last() error {
	if len(l.block) == 0 || l.block[0] != 0x80|8 || l.data != len(body) {
		return fmt.Errorf("the last answer had %d bytes, and its block began with %#x", l.data, l.block[:min(1, len(l.block))])
	}
	return nil
}

// bytes implements link.
func (l *two) bytes() (request, answer float64) {
	return float64(len(l.requests[0])), frameHead + float64(l.seen[1])/float64(l.seen[0])
}
