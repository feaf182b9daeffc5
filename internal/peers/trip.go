// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/tallystick/tallystick/internal/peers/turns"
)

// A Trip is what is measured of requests that are served for real: handlers, each behind
// a server of its own, asked in turn, and what their one client sends.
type Trip struct {
	Name     string
	Handlers []http.Handler

	// Request appends the next request, as it stands on the wire, to b. head is that of the
	// answer before, nil at first; see [Loop.Send].
	Request func(b, head []byte) []byte

	Status int // of all answers
}

// Player opens the servers of t. Its After says what was wrong with the answers.
func (t Trip) Player() (p turns.Player, closed func() error, err error) {
	loops := make([]*Loop, len(t.Handlers))
	closed = func() (err error) {
		for _, l := range loops {
			if l != nil {
				err = errors.Join(err, l.Close())
			}
		}
		return err
	}
	for i, h := range t.Handlers {
		if loops[i], err = NewLoop(h); err != nil {
			return turns.Player{}, nil, errors.Join(err, closed())
		}
	}
	c := &tripper{loops: loops, compose: t.Request, start: fmt.Appendf(nil, "HTTP/1.1 %d ", t.Status)}
	return turns.Player{Name: t.Name, Run: c.run, After: c.after}, closed, nil
}

// A tripper is the client of a trip.
type tripper struct {
	loops   []*Loop
	compose func(b, head []byte) []byte
	start   []byte // of a good answer

	next          int
	request, head []byte
	err           error
}

// run makes n round trips, or fewer where one fails.
func (c *tripper) run(n int) {
	for range n {
		c.request = c.compose(c.request[:0], c.head)
		head, err := c.loops[c.next].Send(c.request)
		if err == nil && !bytes.HasPrefix(head, c.start) {
			err = fmt.Errorf("answered %q", head)
		}
		if err != nil {
			c.err = err
			return
		}
		c.head = head
		if c.next++; c.next == len(c.loops) {
			c.next = 0
		}
	}
}

func (c *tripper) after(int) error { return c.err }
