// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/http"
	"slices"
)

// body is what every handler answers.
const body = "ok"

// different is how many different requests and answers of a shape take turns.
const different = 64

// A Shape is a request and what its answer has beside the body.
type Shape struct {
	Name string

	// Sends are fields of the request, beside those that every client sends.
	Sends []Field

	// Answers are fields that the handler sets, beside the Content-Type that most set.
	Answers []Field

	// Plain says that the handler sets no Content-Type. What any handler pays for its first
	// field is no limiter's cost, and over HTTP/2 it is much.
	Plain bool
}

// A Field is a line of a message. Its values take turns, one for each message, so that
// the compression of HTTP/2 meets again only what it would meet again in life. They have one
// length, and [different] is a multiple of their number.
type Field struct {
	Name   string // in net/http's canonical spelling
	Values []string
}

// check reports a shape that does not measure what it says.
func (s *Shape) check() error {
	for _, fields := range [...][]Field{s.Sends, s.Answers} {
		for _, f := range fields {
			if f.Name != http.CanonicalHeaderKey(f.Name) || len(f.Values) == 0 || different%len(f.Values) != 0 {
				return fmt.Errorf("the field %q is not in canonical spelling, or has %d values", f.Name, len(f.Values))
			}
			for _, v := range f.Values {
				if len(v) != len(f.Values[0]) {
					return fmt.Errorf("values of %s have %d and %d bytes", f.Name, len(f.Values[0]), len(v))
				}
			}
		}
	}
	return nil
}

// value returns the value of the i-th message.
func (f *Field) value(i int) string { return f.Values[i%len(f.Values)] }

// handler returns the handler that sets the fields. It looks at the first requests, whether
// they have what the client should have sent.
func (s *Shape) handler() http.Handler {
	lines := make([][different][]string, len(s.Answers)) // by field and turn
	for i := range s.Answers {
		for turn := range different {
			lines[i][turn] = []string{s.Answers[i].value(turn)}
		}
	}
	answer, text := []byte(body), []string{"text/plain; charset=utf-8"} // as the server would guess
	turn, looked := 0, 0                                                // there is one connection, and one request at a time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if looked < different {
			looked++
			if !s.sentBy(r, turn) {
				http.Error(w, "not what was to be sent", http.StatusBadRequest)
				return
			}
		}
		h := w.Header()
		if !s.Plain {
			h["Content-Type"] = text
		}
		for i := range lines {
			h[s.Answers[i].Name] = lines[i][turn]
		}
		turn = (turn + 1) % different
		_, _ = w.Write(answer) // the client counts the bytes
	})
}

func (s *Shape) sentBy(r *http.Request, turn int) bool {
	for i := range s.Sends {
		if !slices.Equal(r.Header[s.Sends[i].Name], []string{s.Sends[i].value(turn)}) {
			return false
		}
	}
	return true
}
