// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
)

// Clients that do to bodies and streams what a network may, by HTTP/1.1, and HTTP/2 with TLS and without.

func overTLS(p *http.Protocols)    { p.SetHTTP2(true) }
func withoutTLS(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }

// streams returns what each does in a turn.
func (w *world) streams() (all []func(t turn)) {
	all = append(all, w.uploads(w.caller(upload, "uploader", 0), fleet.Balancer))
	for i, protocol := range []func(*http.Protocols){overTLS, withoutTLS} {
		safe := i == 0
		visitor := func(policy, kind string) (*caller, *http.Transport) {
			c := w.caller(policy, kind, i+1)
			return c, w.over(c, safe, protocol)
		}
		c, _ := visitor(upload, "uploader")
		all = append(all, w.uploads(c, i))
		for _, policy := range []string{early, proxied} {
			for _, slowly := range []bool{false, true} {
				c, t := visitor(policy, "caller")
				if c.eyes.Slow = slowly; slowly { // the process waits for it
					t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
				}
				all = append(all, func(t turn) { w.calls(c, t) })
			}
			c, _ := visitor(policy, "resets")
			all = append(all, func(t turn) { w.resets(c, t) })
		}
	}
	return all
}

// uploads sends files: whole, cut in the middle, and whole but gone before the answer.
func (w *world) uploads(c *caller, to int) func(t turn) {
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, _ := m.CreateFormFile("file", "letter.txt") // a Buffer takes all
	_, _ = part.Write(bytes.Repeat([]byte("letter\n"), 10_000))
	_ = m.Close()
	ask := fleet.Request{To: to, From: c.From[0], Fields: []string{"Content-Type", m.FormDataContentType()}}
	return func(t turn) {
		for range t.share(1) {
			if a := c.eyes.send(ask, form.String()); a.Status != 0 && a.Status != http.StatusNoContent {
				w.Broken.Note("%s: %d", c.name, a.Status)
			}
			hasty, stop := context.WithCancel(c.eyes.Ctx)
			_, _ = c.eyes.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()[:form.Len()/2]), failing{}))
			_, _ = c.eyes.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()), hanging{stop}))
			stop()
			w.Cut.Add(2)
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

// calls is an honest client of HTTP/2: it wants each answer whole, after a 103, and the trailer.
func (w *world) calls(c *caller, t turn) {
	for i := range t.share(2) {
		body := strings.Repeat("x", i*1000)
		var first atomic.Int64
		ctx := httptrace.WithClientTrace(c.eyes.Ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			first.Add(1)
			return nil
		}})
		there := w.away.Now()
		a, err := c.eyes.Try(ctx, fleet.Request{To: i, From: c.From[0], Fields: []string{"Expect", "100-continue"}}, strings.NewReader(body))
		switch {
		case err != nil || a.Status != http.StatusOK:
			if w.away.Stood(there) {
				w.Lost.Note("%s on /%s: %d %v", c.name, c.eyes.Policy, a.Status, err)
			}
		case first.Load() == 0:
			w.Broken.Note("%s: no 103", c.name)
		case len(a.Body) != instance.Size || a.Token() == "":
			w.Broken.Note("%s: of %d bytes %d came; token %q", c.name, instance.Size, len(a.Body), a.Token())
		case c.eyes.Policy == proxied && a.Trailer.Get(instance.Sum) != strconv.Itoa(len(body)):
			w.Broken.Note("%s: trailers %v after %d bytes", c.name, a.Trailer, len(body))
		}
	}
}

// resets opens streams by the handful, and resets them: at once, at a 103, or while the answer comes.
func (w *world) resets(c *caller, t turn) {
	for i := range t.share(2) {
		c.Together(8, func(n int) {
			hasty, stop := context.WithCancel(c.eyes.Ctx)
			defer stop()
			if n%4 == 0 {
				hasty = httptrace.WithClientTrace(hasty, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					stop()
					return nil
				}})
			} else {
				time.AfterFunc(rand.N(6*time.Millisecond), stop)
			}
			_, _ = c.eyes.Try(hasty, fleet.Request{To: i, From: c.From[0]}, strings.NewReader("x"))
			w.Cut.Add(1)
		})
	}
}
