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
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/internal/lab/instance"
	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/client"
)

// The clients of a fleet. Each is a goroutine, goes on until the time is over, and ends what it has begun.

// pace waits for about so long, and reports whether there is time for more.
func pace(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// client is a client of a policy, at an address of its own.
func (f *fleet) client(policy string, protocol func(*http.Protocols)) *caller {
	address := f.host()
	t := f.dialer(address)
	if protocol != nil {
		t.Protocols = new(http.Protocols)
		protocol(t.Protocols)
	}
	return &caller{scene: f.scene, name: policy, address: address, client: &http.Client{Transport: t}, policy: policy}
}

// direct is where a process takes HTTP/2, by TLS or without it.
func (f *fleet) direct(i int, safe bool) string {
	if safe {
		return "https://" + f.where[i].Safe.String()
	}
	return "http://" + f.where[i].Front.String()
}

func overTLS(p *http.Protocols)    { p.SetHTTP2(true) }
func withoutTLS(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }

func (f *fleet) http2(safe bool) *caller {
	if safe {
		return f.client(instance.Early, overTLS)
	}
	return f.client(instance.Early, withoutTLS)
}

// start starts all clients.
func (f *fleet) start(ctx context.Context, run func(func())) {
	for _, policy := range []string{instance.Sliding, instance.Fixed, instance.Bucket, instance.LogIn} {
		for _, carrier := range []string{"header", "cookie", "neither", "header", "cookie", "neither"} {
			run(func() { f.honest(ctx, f.rules[policy], carrier) })
		}
	}
	for range 2 { // each has two requests at a time, where four may be served
		c := f.client(instance.AtOnce, nil)
		for range 2 {
			run(func() { f.steady(ctx, c, 600*time.Millisecond) })
		}
	}
	office := f.host()
	for range 6 { // who buy what their address does not have
		c := f.client(instance.Form, nil)
		c.name = "form, by work"
		c.client.Transport = &client.Transport{Base: f.dialer(office), MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}
		run(func() { f.steady(ctx, c, 4*time.Second) })
	}
	for i, protocol := range []func(*http.Protocols){nil, overTLS, withoutTLS} {
		run(func() { f.uploads(ctx, i, protocol) })
	}
	for _, safe := range []bool{true, false} {
		for _, slow := range []bool{false, true} {
			run(func() { f.calls(ctx, safe, slow) })
		}
		for range 2 {
			run(func() { f.resets(ctx, safe) })
		}
	}
	f.attack(ctx, run)
}

// honest is a client that uses 9 of 10 of what it may, some requests at a time, on whichever process.
func (f *fleet) honest(ctx context.Context, r *rule, carrier string) {
	c, m, base := f.client(r.policy, nil), newMeter(r), f.through()
	if carrier == "cookie" {
		c.client.Jar, _ = cookiejar.New(nil) // it never fails without options
		base = "https://" + f.cluster.proxy.safe.String()
	}
	token, sent := "", 0
	for few := 1 + rand.IntN(3); pace(ctx, time.Duration(few)*r.limits[0].Window*10/9/time.Duration(r.quota.Begin()().Least)); few = 1 + rand.IntN(3) {
		for range few {
			sent++
			var fields []string
			if token != "" {
				fields = []string{middleware.TokenHeader, token}
			}
			if r.policy == instance.LogIn && sent%4 == 0 {
				fields = append(fields, instance.Wrong, "1")
			}
			a := f.hears(r.policy+", by "+carrier, m, func() (answer, error) {
				return c.try(f.cluster.ctx, http.MethodPost, base+"/"+r.policy, nil, fields...)
			})
			if carrier == "header" && a.token() != "" {
				token = a.token()
			}
		}
	}
}

// steady sends a request now and then, and is never refused.
func (f *fleet) steady(ctx context.Context, c *caller, every time.Duration) {
	for m := newMeter(&rule{}); pace(ctx, every); {
		f.hears(c.name, m, func() (answer, error) {
			return c.try(f.cluster.ctx, http.MethodPost, f.through()+"/"+c.policy, nil)
		})
	}
}

// uploads sends files: whole, cut in the middle, and whole but gone before the answer.
func (f *fleet) uploads(ctx context.Context, which int, protocol func(*http.Protocols)) {
	c, m := f.client(instance.Upload, protocol), newMeter(f.rules[instance.Upload])
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, _ := w.CreateFormFile("file", "letter.txt") // a Buffer takes all
	_, _ = part.Write(bytes.Repeat([]byte("letter\n"), 10_000))
	_ = w.Close()
	for i := 0; pace(ctx, 700*time.Millisecond); i++ {
		base := f.through()
		if protocol != nil {
			base = f.direct(i%fleetSize, which == 1)
		}
		hasty, stop := context.WithCancel(f.cluster.ctx)
		all, half := bytes.NewReader(form.Bytes()), bytes.NewReader(form.Bytes()[:form.Len()/2])
		send := func(body io.Reader) (answer, error) {
			return c.try(hasty, http.MethodPost, base+"/"+c.policy, body, "Content-Type", w.FormDataContentType())
		}
		switch i % 3 {
		case 0:
			f.hears("upload", m, func() (answer, error) { return send(all) })
		case 1:
			_, _ = send(io.MultiReader(half, failing{}))
			f.kind("upload, cut").sent.Add(1)
		case 2:
			_, _ = send(io.MultiReader(all, hanging{stop}))
			f.kind("upload, gone before the answer").sent.Add(1)
		}
		stop()
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

// calls is an honest client of HTTP/2: it wants each answer whole, after a 103, and the trailer. A slow one has the
// process wait for it.
func (f *fleet) calls(ctx context.Context, safe, slow bool) {
	c := f.http2(safe)
	if c.slow = slow; slow {
		c.client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
	}
	for i := 0; pace(ctx, 300*time.Millisecond); i++ {
		policy, body := []string{instance.Early, instance.Proxied}[i%2], strings.Repeat("x", i%3*1000)
		var early atomic.Int64
		counted := httptrace.WithClientTrace(f.cluster.ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			early.Add(1)
			return nil
		}})
		a := f.hears(policy+", by HTTP/2", newMeter(f.rules[policy]), func() (answer, error) {
			return c.try(counted, http.MethodPost, f.direct(i/2%fleetSize, safe)+"/"+policy, strings.NewReader(body), "Expect", "100-continue")
		})
		switch {
		case a.status != http.StatusOK: // has been heard
		case early.Load() == 0:
			f.broken.Note(policy + ": no 103")
		case a.size != instance.Size || a.token() == "":
			f.broken.Note(fmt.Sprintf("%s: of %d bytes %d came; token %q", policy, instance.Size, a.size, a.token()))
		case policy == instance.Proxied && a.trailer.Get(instance.Sum) != strconv.Itoa(len(body)):
			f.broken.Note(fmt.Sprintf("%s: trailers %v after %d bytes", policy, a.trailer, len(body)))
		}
	}
}

// resets opens streams by the handful, and resets them: at once, at a 103, or while the answer comes.
func (f *fleet) resets(ctx context.Context, safe bool) {
	c := f.http2(safe)
	for i := 0; pace(ctx, 500*time.Millisecond); i++ {
		policy := []string{instance.Early, instance.Proxied}[i%2]
		times(8, func(n int) {
			hasty, stop := context.WithCancel(f.cluster.ctx)
			defer stop()
			if n%4 == 0 {
				hasty = httptrace.WithClientTrace(hasty, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					stop()
					return nil
				}})
			} else {
				time.AfterFunc(rand.N(6*time.Millisecond), stop)
			}
			_, _ = c.try(hasty, http.MethodPost, f.direct(i/2%fleetSize, safe)+"/"+policy, strings.NewReader("x"))
			f.kind(policy + ", reset").sent.Add(1)
		})
	}
}
