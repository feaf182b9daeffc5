// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// one speaks HTTP/1.1.
type one struct {
	conn     net.Conn
	requests [different][]byte
	answer   []byte // room for one; all have one length
	careful  bufio.Reader
}

func newOne(conn net.Conn, s *Shape) (link, error) {
	l := &one{conn: conn}
	l.careful.Reset(conn)
	for i := range l.requests {
		var b strings.Builder
		b.WriteString("POST /contact HTTP/1.1\r\nHost: wire.test\r\nUser-Agent: wire\r\nContent-Length: 0\r\n")
		for k := range s.Sends {
			fmt.Fprintf(&b, "%s: %s\r\n", s.Sends[k].Name, s.Sends[k].value(i))
		}
		l.requests[i] = []byte(b.String() + "\r\n")
	}
	return l, nil
}

// read implements link.
func (l *one) read(i int) (http.Header, string, error) {
	if _, err := l.conn.Write(l.requests[i]); err != nil {
		return nil, "", err
	}
	var raw bytes.Buffer
	l.careful.Reset(io.TeeReader(l.conn, &raw))
	response, err := http.ReadResponse(&l.careful, nil)
	if err != nil {
		return nil, "", err
	}
	got, err := io.ReadAll(response.Body)
	if l.answer != nil && len(l.answer) != raw.Len() {
		return nil, "", fmt.Errorf("answers of %d and %d bytes", len(l.answer), raw.Len())
	}
	l.answer = raw.Bytes()
	return response.Header, string(got), err
}

// ask implements link.
func (l *one) ask(i int) error {
	if _, err := l.conn.Write(l.requests[i]); err != nil {
		return err
	}
	_, err := io.ReadFull(l.conn, l.answer)
	return err
}

// last implements link. An answer of another length or status ends elsewhere.
func (l *one) last() error {
	if !bytes.HasPrefix(l.answer, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.HasSuffix(l.answer, []byte("\r\n\r\n"+body)) {
		return fmt.Errorf("the last answer was %q", l.answer)
	}
	return nil
}

// bytes implements link.
func (l *one) bytes() (request, answer float64) {
	return float64(len(l.requests[0])), float64(len(l.answer))
}
