// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// Clients that go on while all else happens, or that do to bodies and streams what a network may.

// meanwhile has clients do what they do, at once: each of them once or, in a soak, again and again.
func (s *scene) meanwhile(does ...func(s *scene) func()) {
	var all []func()
	for _, of := range does {
		do := of(s)
		all = append(all, func() {
			for do(); s.on(); do() {
				s.pause(s.scale.pause)
			}
		})
	}
	together(all...)
}

// keeps is a client that always shows its newest token, to one instance after the other. It must be accepted, whatever is done to
// secrets and policies, and the client has room.
func keeps(s *scene) func() {
	c := s.honest()
	c.Strict = true
	return func() {
		for to := range 10 {
			s.still(func() { // or its token would end on the way
				if standing := s.House.Away.Now(); !c.Send(to) && s.House.Away.Stood(standing) {
					s.Unjust.Note("%s is refused", c.Name)
				}
			})
		}
	}
}

// flood sends forged tokens and proofs as fast as it can, from one address after the other. It is a load: the threats of forgery
// have tests of their own.
func flood(s *scene) func() {
	real := s.honest().Ask(fleet.Request{}).Token()
	forgeries := []string{real + ".", "." + real, real + "B", strings.Repeat(real+",", 40), strings.Repeat("A", 7000), "..", "~0.0.0.0.0.0.0.0"}
	for i := 0; i < len(real); i += 7 { // one character changed
		changed := []byte(real)
		changed[i] ^= 1
		forgeries = append(forgeries, string(changed))
	}
	c := s.attacker()
	c.Named = true
	n := 0
	return func() {
		for i, f := range forgeries {
			n++
			ask := fleet.Request{To: n, From: fmt.Sprintf("10.%d.%d.1", n>>8&15, n&255)}
			switch i % 4 {
			case 0:
				ask.Cookie = s.Cookie + "=" + f // as a browser shows it
			case 1:
				ask.Proof = f
			default:
				ask.Fields = []string{middleware.TokenHeader, f}
			}
			c.Ask(ask)
		}
	}
}

// over is a client of HTTP/2, straight to the instances.
func (s *scene) over() *Client {
	c, t := s.attacker(), s.Dialer("127.0.0.1")
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	c.Named, c.Base = true, t
	return c
}

// uploads sends files, by HTTP/1.1 and HTTP/2: whole, cut in the middle, and whole but gone before the answer.
func (s *scene) uploads() func() {
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, _ := m.CreateFormFile("file", "letter.txt") // a Buffer takes all
	_, _ = part.Write(bytes.Repeat([]byte("letter\n"), 10_000))
	_ = m.Close()
	all := map[int]*Client{0: s.over(), fleet.Balancer: s.attacker()}
	return func() {
		for to, c := range all {
			ask := fleet.Request{To: to, From: c.From[0], Fields: []string{"Content-Type", m.FormDataContentType()}}
			if a := c.Say(ask, form.String()); a.Status != 0 && a.Status != http.StatusNoContent {
				s.Unjust.Note("%s: %d", c.Name, a.Status)
			}
			hasty, stop := context.WithCancel(s.Ctx)
			_, _ = c.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()[:form.Len()/2]), failing{}))
			_, _ = c.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()), hanging{stop}))
			stop()
		}
	}
}

// failing is the rest of a body that does not come; hanging is its end, at which the client goes.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("cut") }

type hanging struct{ up func() }

func (h hanging) Read([]byte) (int, error) {
	time.AfterFunc(rand.N(2*time.Millisecond), h.up)
	return 0, io.EOF
}

// hinted has a request tell of a 103.
func hinted(ctx context.Context, tell func()) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		tell()
		return nil
	}})
}

// calls wants each answer whole, after a 103.
func (s *scene) calls() func() {
	c := s.over()
	return func() {
		for i := range s.House.Instances {
			var first atomic.Int64
			there := s.House.Away.Now()
			a, err := c.Try(hinted(s.Ctx, func() { first.Add(1) }), fleet.Request{To: i, From: c.From[0]}, strings.NewReader("x"))
			switch {
			case err != nil || a.Status != http.StatusOK:
				s.lost(there, fmt.Errorf("%s: %d %w", c.Name, a.Status, err))
			case first.Load() == 0 || len(a.Body) != house.Size || a.Token() == "":
				s.Unjust.Note("%s: %d times a 103; of %d bytes %d came; token %q", c.Name, first.Load(), house.Size, len(a.Body), a.Token())
			}
		}
	}
}

// resets opens streams by the handful, and resets them: at once, at a 103, or while the answer comes.
func (s *scene) resets() func() {
	c := s.over()
	return func() {
		c.Together(16, func(n int) {
			hasty, stop := context.WithCancel(s.Ctx)
			defer stop()
			if n%4 == 0 {
				hasty = hinted(hasty, stop)
			} else {
				time.AfterFunc(rand.N(6*time.Millisecond), stop)
			}
			_, _ = c.Try(hasty, fleet.Request{To: n, From: c.From[0]}, strings.NewReader("x"))
		})
	}
}
