// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
)

// A link is a connection that is kept, to a server of net/http on the loopback device, as a handler:
// what is asked of it goes over the wire. Its client is as bare as it can be, the same for all: it
// sends the one field that shows something, and reads of the answer the status and the fields that
// have tokens.
type link struct {
	conn            net.Conn
	request, answer []byte // as they stand on the wire, the last ones
}

// overHTTP returns h behind a server of its own.
func overHTTP(o *opening, h http.Handler) *link {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	o.closing(server.Close)
	return dial(o, nil, listener.Addr().String())
}

// dial connects to a server, from an address if it is not nil.
func dial(o *opening, from net.IP, address string) *link {
	d := new(net.Dialer)
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	l := &link{conn: must(d.Dial("tcp", address)), answer: make([]byte, 0, 16<<10)}
	o.closing(l.conn.Close)
	return l
}

// ServeHTTP implements [http.Handler]. An answer that is none has no status.
func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := l.ask(w.Header(), r.Header)
	if err != nil {
		w.Header().Set("Error", err.Error())
		return
	}
	w.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = w.Write(okay)
	}
}

var (
	endOfHead     = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
	tokenLine     = []byte("\r\n" + byHeader + ": ")
	cookieLine    = []byte("\r\n" + setCookie + ": ")
)

// ask sends a request, and reads the answer, which must tell its length.
func (l *link) ask(fields, shows http.Header) (status int, err error) {
	l.request = append(l.request[:0], requestLine...)
	for name, lines := range shows {
		l.request = append(append(append(append(l.request, name...), ": "...), lines[0]...), "\r\n"...)
	}
	if _, err := l.conn.Write(append(l.request, "\r\n"...)); err != nil {
		return 0, err
	}
	l.answer = l.answer[:0]
	for len(l.answer) < cap(l.answer) {
		n, err := l.conn.Read(l.answer[len(l.answer):cap(l.answer)])
		l.answer = l.answer[:len(l.answer)+n]
		if end := bytes.Index(l.answer, endOfHead); end >= 0 {
			head := l.answer[:end+2]
			length, errLength := strconv.Atoi(string(fieldOf(head, contentLength)))
			if all := end + len(endOfHead) + length; errLength != nil || len(l.answer) > all {
				break
			} else if len(l.answer) < all {
				continue
			}
			if v := fieldOf(head, tokenLine); v != nil {
				fields[byHeader] = []string{string(v)}
			}
			if v := fieldOf(head, cookieLine); v != nil {
				fields[setCookie] = []string{string(v)}
			}
			return strconv.Atoi(string(head[len("HTTP/1.1 "):][:3]))
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no answer of which the length is told: %q", l.answer)
}

// fieldOf returns the value of the first field of a head whose line begins with a name in the
// spelling of net/http, between the end of the line before and a space: "\r\nAge: ". nil is none.
func fieldOf(head, name []byte) []byte {
	at := bytes.Index(head, name)
	if at < 0 {
		return nil
	}
	value := head[at+len(name):]
	return value[:max(0, bytes.IndexByte(value, '\r'))]
}
