// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A link is a connection that is kept, to a server of net/http on the loopback device, as a handler:
// what is asked of it goes over the wire. Its client is as bare as it can be, the same for all: it
// sends the one field that shows something, and reads of the answer the status and the fields that
// have tokens.
type link struct {
	conn            net.Conn
	request, answer []byte // as they stand on the wire, the last ones

	// Over HTTP/2 (RFC 9113, without TLS) there is one stream after the other.
	frames    *http2.Framer
	stream    uint32
	block     bytes.Buffer
	encoder   *hpack.Encoder
	sent, got int // bytes of fields, and frames' heads
}

// overHTTP returns h behind a server of its own.
func overHTTP(o *opening, h http.Handler, version int) *link {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	server := &http.Server{Handler: h, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	o.closing(server.Close)
	l := dial(o, nil, listener.Addr().String())
	if version == 2 {
		must(io.WriteString(l.conn, http2.ClientPreface))
		l.frames, l.stream, l.encoder = http2.NewFramer(l.conn, l.conn), 1, hpack.NewEncoder(&l.block)
		l.frames.SetReuseFrames()
		check(errors.Join(l.frames.WriteSettings(), l.frames.WriteWindowUpdate(0, 1<<31-1-65535))) // for all that is sent
	}
	return l
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
	ask := l.ask
	if l.frames != nil {
		ask = l.ask2
	}
	status, err := ask(w.Header(), r.Header)
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

// ask sends a request of HTTP/1.1, and reads the answer, which must tell its length.
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

// ask2 sends a request of HTTP/2, and reads past the answer. What is shown is never indexed, as RFC
// 7541 section 7.1.3 advises for what is hard to guess.
func (l *link) ask2(_, shows http.Header) (status int, err error) {
	l.block.Reset()
	for _, f := range [...][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/contact"}, {":authority", "bench.test"}, {"content-length", "0"}} {
		err = errors.Join(err, l.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	for name, lines := range shows {
		err = errors.Join(err, l.encoder.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: lines[0], Sensitive: true}))
	}
	err = errors.Join(err, l.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: l.stream, BlockFragment: l.block.Bytes(), EndStream: true, EndHeaders: true}))
	for err == nil {
		var f http2.Frame
		if f, err = l.frames.ReadFrame(); err != nil {
			break
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if block := f.HeaderBlockFragment(); len(block) > 0 && block[0] == 0x80|8 { // of the static table
				status = http.StatusOK
			}
			l.sent, l.got = l.block.Len(), len(f.HeaderBlockFragment())
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = l.frames.WriteSettingsAck()
			}
		}
		if f.Header().StreamID == l.stream && f.Header().Flags.Has(http2.FlagDataEndStream) {
			l.stream += 2
			return status, err
		}
	}
	return 0, err
}

// bytes returns how many the last request and answer had, but for what is the same in all.
func (l *link) bytes() (request, answer float64) {
	if l.frames != nil {
		return float64(l.sent), float64(l.got)
	}
	return float64(len(l.request)), float64(len(l.answer))
}
