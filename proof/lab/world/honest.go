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
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

const (
	steadyEach  = 5 // requests of a round: an eighth of the quota, so that it has room whatever the clocks do
	browserEach = 6
	buyerEach   = 2
	bodyEach    = 2
	bodySize    = 64 << 10
)

// caller returns a client at an address of its own, which a proxy names. The oracle does not judge its refusals.
func (w *world) caller(policy, kind string, number int) *court.Client {
	c := w.Client(kind+" "+strconv.Itoa(number), policy)
	c.Named = true
	return c
}

// friend returns one that does what the documentation says: the oracle judges each of its refusals.
func (w *world) friend(policy, kind string, number int) *court.Client {
	c := w.caller(policy, kind, number)
	c.Honest = true
	return c
}

// over has a client use the protocols alone, with TLS where it is safe, straight to an instance.
func (w *world) over(c *court.Client, safe bool, protocol func(*http.Protocols)) *http.Transport {
	t := w.Dialer("127.0.0.1")
	t.Protocols = new(http.Protocols)
	protocol(t.Protocols)
	c.Base = t
	if safe {
		c.At = func(to int) string { return "https://" + w.Where(max(0, to)).Safe.String() }
	}
	return t
}

// send is the request of a client that shows its newest token.
func (w *world) send(c *court.Client, to int, body string) court.Answer {
	a := c.Send(to, body)
	if a.Admitted() && a.Body != strconv.Itoa(len(body)) {
		w.Broken.Note("%s: of %d bytes %s came", c.Name, len(body), a.Body)
	}
	return a
}

// want is send, of a client that has room.
func (w *world) want(c *court.Client, to int, body string) {
	w.wants(c, w.send(c, to, body).Answer)
}

// wants notes that a client with room was refused, if it had an answer at all.
func (w *world) wants(c *court.Client, a fleet.Answer) bool {
	if a.Status != 0 && !a.Admitted() {
		w.Unjust.Note("%s: %s", c.Name, court.Told(a))
	}
	return a.Admitted()
}

// honest returns the honest clients, as what each does in a turn. The oracle judges what becomes of them.
func (w *world) honest() (all []func(t turn)) {
	for i := range 16 {
		c := w.friend(windowed, "steady", i)
		all = append(all, func(t turn) { w.steadily(c, i, t) })
	}
	for i := range 3 {
		full, browser, body, two := w.friend(windowed, "full", i), w.friend(windowed, "browser", i), w.friend(slow, "body", i), w.friend(crew, "crew", i)
		full.Echoes = true
		all = append(all,
			func(t turn) {
				for n := range t.share(int(quotaOf(windowed, 1)) + 5) {
					w.send(full, n, "")
				}
			},
			func(t turn) { w.browse(browser, i, t) },
			func(t turn) {
				for range t.share(bodyEach) {
					w.want(body, i, strings.Repeat("x", bodySize))
				}
			},
			func(t turn) {
				two.Together(2*t.share(1), func(n int) { w.wants(two, two.Ask(fleet.Request{To: n})) }) // where four may be served at once
			})
		for _, policy := range []string{form, busy} {
			buyer := w.friend(policy, "buyer", i)
			all = append(all, func(t turn) {
				if w.owns(buyer, i, t) {
					for n := range t.share(buyerEach) {
						w.want(buyer, i+n, "")
					}
				}
			})
		}
	}
	for _, policy := range []string{windowed, fixed, bucket, login} {
		for _, carrier := range []string{"header", "cookie", "neither"} {
			all = append(all, w.metered(policy, carrier))
		}
	}
	for i := range 2 {
		holder := w.friend(form, "holder", i)
		holder.Echoes = true
		all = append(all, func(t turn) { w.hold(holder, i, t) })
	}
	return append(all, w.office())
}

// steadily uses an eighth of the quota, on one instance after the other: all of it is admitted,
// in a flood as without, and whatever the clocks do.
func (w *world) steadily(c *court.Client, i int, t turn) {
	phase := w.phase()
	for n := range t.share(steadyEach) {
		a := w.send(c, i+n, "")
		for a.Status == 0 && w.restarting.Load() { // until the instance is there again
			time.Sleep(time.Millisecond)
			a = w.send(c, i+n, "")
		}
		phase.planned.Add(1)
		if w.wants(c, a.Answer) {
			phase.admitted.Add(1)
		}
	}
}

// browse is a page with six requests at once, to one instance. It keeps the last answer.
func (w *world) browse(c *court.Client, i int, t turn) {
	ask := fleet.Request{To: i, Tokens: []string{c.Lives()}}
	answers := make([]fleet.Answer, t.share(browserEach))
	c.Together(len(answers), func(n int) { answers[n] = c.Ask(ask) })
	for _, a := range answers {
		w.wants(c, a)
		c.Keep(a.Token())
	}
}

// owns has a client buy a tally by the challenge of one instance at the next one, if it has none that lives until it may buy
// another one.
func (w *world) owns(c *court.Client, seller int, t turn) bool {
	if _, ends := fleet.Claims(c.Token); ends > w.House.Clock.Load()+12*window {
		return true
	}
	c.Token = ""
	if !t.canBuy() {
		return false
	}
	if !c.Purchase(seller, seller+1) {
		w.Unjust.Note("%s: its proof is not accepted", c.Name)
	}
	return c.Token != ""
}

// hold is a holder of a tally that asks for all that it is good for, and its address, and some more. Its balancer spreads
// what it sends evenly or, of the first holder, keeps it on another instance than the one that has sold its tally.
func (w *world) hold(c *court.Client, i int, t turn) {
	at := i + int(t.round/ofCycle) // in the next cycle it is put on another one
	if !w.owns(c, at+1, t) {
		return
	}
	for n := range t.share(2*int(quotaOf(form, 1)) + 5) {
		if i > 0 {
			at = n
		}
		if a := w.send(c, at, ""); a.Status != 0 && !a.Admitted() {
			return
		}
	}
}

// metered is a client that uses 9 of 10 of what it may, with what an answer brings in a field, in a cookie, or nowhere.
// With a cookie it is at one instance.
func (w *world) metered(policy, carrier string) func(t turn) {
	c := w.friend(policy, "metered by "+carrier, 0)
	if carrier == "cookie" {
		w.over(c, true, overTLS)
	}
	return func(t turn) {
		if carrier == "cookie" && t.round%ofCycle == calmly { // what it had ends by clocks that no jar knows
			c.Jar, _ = cookiejar.New(nil) // it never fails without options
		}
		for n := range t.share(int(quotaOf(policy, 0) * 9 / 10)) {
			var fields []string
			if policy == login && n%4 == 0 {
				fields = []string{house.Wrong, "1"}
			}
			if carrier == "cookie" {
				n = 0
			}
			if carrier != "header" {
				c.Token = ""
			}
			c.Send(n, "", fields...)
		}
	}
}

// office is people behind one address that buy what it does not have, by the Go client of this repository.
func (w *world) office() func(t turn) {
	const people = 6
	c := w.caller(form, "buys", 0) // its tokens may have ended: its clock is the machine's
	var clients [people]*http.Client
	for i := range clients {
		clients[i] = c.Polite()
	}
	return func(t turn) {
		if !t.canBuy() {
			return
		}
		c.Together(people, func(i int) {
			for range 2 {
				if status := c.Post(clients[i]); status != 0 && status != http.StatusOK {
					w.Unjust.Note("the office: %d", status)
				}
			}
		})
	}
}

func overTLS(p *http.Protocols)    { p.SetHTTP2(true) }
func withoutTLS(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }

// payers are honest clients of the exact route, new ones for each cycle: its window does not end. Each asks one instance after the
// other, for all that it may have and some more.
func (w *world) payers() (all []func(t turn)) {
	for i := range 4 {
		c := w.friend(paid, "payer", i)
		all = append(all, func(t turn) {
			for n := range t.share(int(quotaOf(paid, 0))/ofCycle + 1) {
				w.send(c, i+n, "")
			}
		})
	}
	return all
}

// Clients that do to bodies and streams what a network may, by HTTP/1.1, and HTTP/2 with TLS and without.

// streams returns what each does in a turn.
func (w *world) streams() (all []func(t turn)) {
	all = append(all, w.uploads(w.friend(upload, "uploader", 0), fleet.Balancer))
	for i, protocol := range []func(*http.Protocols){overTLS, withoutTLS} {
		safe := i == 0
		visitor := func(policy, kind string) (*court.Client, *http.Transport) {
			c := w.caller(policy, kind, i+1)
			return c, w.over(c, safe, protocol)
		}
		c, _ := visitor(upload, "uploader")
		c.Honest = true
		all = append(all, w.uploads(c, i))
		for _, policy := range []string{early, proxied} {
			for _, slowly := range []bool{false, true} {
				c, t := visitor(policy, "caller")
				if c.Slow = slowly; slowly { // the process waits for it
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
func (w *world) uploads(c *court.Client, to int) func(t turn) {
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, _ := m.CreateFormFile("file", "letter.txt") // a Buffer takes all
	_, _ = part.Write(bytes.Repeat([]byte("letter\n"), 10_000))
	_ = m.Close()
	ask := fleet.Request{To: to, From: c.From[0], Fields: []string{"Content-Type", m.FormDataContentType()}}
	return func(t turn) {
		for range t.share(1) {
			if a := c.Say(ask, form.String()); a.Status != 0 && a.Status != http.StatusNoContent {
				w.Broken.Note("%s: %d", c.Name, a.Status)
			}
			hasty, stop := context.WithCancel(c.Ctx)
			_, _ = c.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()[:form.Len()/2]), failing{}))
			_, _ = c.Try(hasty, ask, io.MultiReader(bytes.NewReader(form.Bytes()), hanging{stop}))
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
func (w *world) calls(c *court.Client, t turn) {
	for i := range t.share(2) {
		body := strings.Repeat("x", i*1000)
		var first atomic.Int64
		ctx := httptrace.WithClientTrace(c.Ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			first.Add(1)
			return nil
		}})
		there := w.Away.Now()
		a, err := c.Try(ctx, fleet.Request{To: i, From: c.From[0], Fields: []string{"Expect", "100-continue"}}, strings.NewReader(body))
		switch {
		case err != nil || a.Status != http.StatusOK:
			if w.Away.Stood(there) {
				w.NoAnswer.Note("%s on /%s: %d %v", c.Name, c.Policy, a.Status, err)
			}
		case first.Load() == 0:
			w.Broken.Note("%s: no 103", c.Name)
		case len(a.Body) != house.Size || a.Token() == "":
			w.Broken.Note("%s: of %d bytes %d came; token %q", c.Name, house.Size, len(a.Body), a.Token())
		case c.Policy == proxied && a.Trailer.Get(house.Sum) != strconv.Itoa(len(body)):
			w.Broken.Note("%s: trailers %v after %d bytes", c.Name, a.Trailer, len(body))
		}
	}
}

// resets opens streams by the handful, and resets them: at once, at a 103, or while the answer comes.
func (w *world) resets(c *court.Client, t turn) {
	for i := range t.share(2) {
		c.Together(8, func(n int) {
			hasty, stop := context.WithCancel(c.Ctx)
			defer stop()
			if n%4 == 0 {
				hasty = httptrace.WithClientTrace(hasty, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					stop()
					return nil
				}})
			} else {
				time.AfterFunc(rand.N(6*time.Millisecond), stop)
			}
			_, _ = c.Try(hasty, fleet.Request{To: i, From: c.From[0]}, strings.NewReader("x"))
			w.Cut.Add(1)
		})
	}
}
