// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
)

// A Loop is a server of net/http at work on the loopback device, and one connection to
// it that is kept: what a request costs where it is served for real. Its client is as bare
// as it can be, the same for every handler, and does what it does in this process.
type Loop struct {
	server *http.Server
	ended  chan error
	client net.Conn
	answer []byte // read so far
}

// NewLoop serves h.
func NewLoop(h http.Handler) (*Loop, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	loop := &Loop{
		server: &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)},
		ended:  make(chan error, 1),
		answer: make([]byte, 0, 16<<10),
	}
	go func() { loop.ended <- loop.server.Serve(l) }()
	loop.client, err = new(net.Dialer).DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, loop.Close())
	}
	return loop, nil
}

// Close ends the server and the connection.
func (l *Loop) Close() error {
	var err error
	if l.client != nil {
		err = l.client.Close()
	}
	err = errors.Join(err, l.server.Close())
	if ended := <-l.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

var (
	endOfHead     = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// Send sends a request as it stands on the wire and reads the answer, which must tell its
// length. It returns status line and fields, up to the empty line and with the end of the
// last field; they are good until the next Send.
func (l *Loop) Send(request []byte) (head []byte, err error) {
	if _, err := l.client.Write(request); err != nil {
		return nil, err
	}
	l.answer = l.answer[:0]
	for {
		if len(l.answer) == cap(l.answer) {
			return nil, fmt.Errorf("an answer of more than %d bytes", cap(l.answer))
		}
		n, err := l.client.Read(l.answer[len(l.answer):cap(l.answer)])
		l.answer = l.answer[:len(l.answer)+n]
		if end := bytes.Index(l.answer, endOfHead); end >= 0 {
			head := l.answer[:end+2]
			length, errLength := strconv.Atoi(string(FieldOf(head, contentLength)))
			if errLength != nil {
				return nil, fmt.Errorf("an answer that does not tell its length: %q", head)
			}
			switch all := end + len(endOfHead) + length; {
			case len(l.answer) == all:
				return head, nil
			case len(l.answer) > all:
				return nil, fmt.Errorf("%d bytes after an answer", len(l.answer)-all)
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// FieldOf returns the value of the first field of a head whose line begins with a name in
// the spelling of net/http, between the end of the line before and a space: "\r\nAge: ".
// nil is none.
func FieldOf(head, name []byte) []byte {
	at := bytes.Index(head, name)
	if at < 0 {
		return nil
	}
	value := head[at+len(name):]
	return value[:max(0, bytes.IndexByte(value, '\r'))]
}
