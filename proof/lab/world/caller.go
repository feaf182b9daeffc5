// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/instance"
	"github.com/tallystick/tallystick/proof/lab/judge"
	"github.com/tallystick/tallystick/proof/players"
)

// A caller is a client of one policy at one address. It is used by one goroutine at a time.
type caller struct {
	*players.Attacker
	w     *world
	eyes  *eyes
	name  string
	token string // the newest, where it is one that echoes
}

// caller returns a client at an address that nobody has had.
func (w *world) caller(policy, kind string, number int) *caller {
	e := &eyes{w: w, honest: honest(kind) && kind != "probe", Client: &instance.Client{
		Ctx: context.Background(), Name: kind + " " + strconv.Itoa(number), Policy: policy, Named: true, Size: func() int { return instances },
		At: w.at, Via: func(string) *http.Client { return w.client },
	}}
	return &caller{w: w, eyes: e, name: e.Name, Attacker: &players.Attacker{Fleet: e, From: []string{w.host()}}}
}

// over returns a client that has the protocols alone, with TLS where it is safe, straight to an instance.
func (w *world) over(c *caller, safe bool, protocol func(*http.Protocols)) *http.Transport {
	t := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: w.house.Roots, ServerName: "127.0.0.1"}, DisableCompression: true}
	protocol(t.Protocols)
	w.idle = append(w.idle, t.CloseIdleConnections)
	client := &http.Client{Transport: t}
	c.eyes.Via = func(string) *http.Client { return client }
	if safe {
		c.eyes.At = func(to int) string { return "https://" + w.where[max(0, to)%instances].Safe.String() }
	}
	return t
}

// eyes are what a client sees, and what the judges know of it.
type eyes struct {
	*instance.Client
	w      *world
	honest bool // no request of it may be lost
}

// Ask implements [fleet.Fleet].
func (e *eyes) Ask(r fleet.Request) fleet.Answer { return e.send(r, "").Answer }

// send sends a request with a body, and tells the judges of the answer. The zero Answer is none.
func (e *eyes) send(r fleet.Request, body string) instance.Answer {
	w, ledger := e.w, e.w.exact[e.Policy]
	from, _ := netip.ParseAddr(r.From)
	limited := r.Path == ""
	if ledger != nil && limited {
		ledger.begin(from)
	}
	var during func() judge.Spread
	if of := w.quotas[e.Policy]; of != nil {
		during = of.Begin()
	}
	standing, there := w.outage.Now(), w.away.Now()
	a, err := e.Try(e.Ctx, r, strings.NewReader(body))
	d, decided := instance.Parse(a.Header)
	if err != nil || a.Status >= http.StatusInternalServerError && !decided {
		if e.honest && w.away.Stood(there) {
			w.Lost.Note("%s on /%s: %d %v", e.Name, e.Policy, a.Status, err)
		}
		if ledger != nil && limited {
			ledger.lose(from)
		}
		return instance.Answer{}
	}
	if !limited || !decided {
		return a
	}
	w.decisions.Add(1)
	if d.TokenErr != "" && e.honest {
		// After a clock was wrong by far the tokens that it has signed may have ended.
		if w.touched.Load() && d.Late {
			w.explainedTokens.Add(1)
		} else {
			w.TokenErrors.Note("%s on /%s: %s", e.Name, e.Policy, d.TokenErr)
		}
	}
	switch {
	case ledger != nil:
		ledger.decided(from, d, w.outage.Stood(standing))
	case d.Admitted:
		number, _ := strconv.ParseInt(a.Header.Get(instance.ProcessHeader), 10, 64)
		policy, most := e.Policy, during().Most
		if a.Status == http.StatusUnauthorized {
			policy, most = failures, failedQuota
		}
		w.book.admit(tenant{policy, from}, e.Name, partOf(d), int(number%house.Most), d.At/window, most)
	}
	return a
}

// lives returns its token while that lives.
func (c *caller) lives() string {
	if _, expires := fleet.Claims(c.token); expires <= c.w.clocks.right.Load() {
		c.token = "" // as a browser does with a cookie
	}
	return c.token
}

// send is the request of an honest client: it shows its newest token while that lives, and keeps
// the next.
func (c *caller) send(to int, body string, cookies ...string) fleet.Answer {
	a := c.eyes.send(fleet.Request{To: to, From: c.From[0], Tokens: []string{c.lives()}, Cookie: strings.Join(cookies, "; ")}, body)
	if t := a.Token(); t != "" {
		c.token = t
	}
	if a.Admitted() && a.Body != strconv.Itoa(len(body)) {
		c.w.Broken.Note("%s: of %d bytes %s came", c.name, len(body), a.Body)
	}
	return a.Answer
}

// unjust notes that one with room was refused, if it had an answer at all.
func (c *caller) unjust(a fleet.Answer, why string) {
	if a.Status != 0 {
		c.w.Unjust.Note("%s: %s %s", c.name, instance.Told(a), why)
	}
}

// want is send, of one that has room.
func (c *caller) want(to int, body string, cookies ...string) {
	if a := c.send(to, body, cookies...); !a.Admitted() {
		c.unjust(a, "")
	}
}

// work solves the challenge of an answer, and shows the proof with a request.
func (c *caller) work(to int, offer fleet.Answer, tokens ...string) fleet.Answer {
	if proof := c.Solve(offer); proof != "" {
		return c.Ask(fleet.Request{To: to, Tokens: tokens, Proof: proof})
	}
	return offer
}

// buy buys a tally, and returns its first token; "" if it is not sold.
func (c *caller) buy(seller, redeemer int) string {
	offer := c.Challenge(seller, "")
	token := c.Redeem(redeemer, "", c.Solve(offer))
	if token != "" {
		c.owns(token)
	} else if c.eyes.honest && offer.Status != 0 {
		c.unjust(offer, "its proof is not accepted")
	}
	return token
}

// owns notes a tally that was bought.
func (c *caller) owns(token string) {
	_, expires := fleet.Claims(token)
	c.w.book.buys(tenant{c.eyes.Policy, netip.MustParseAddr(c.From[0])}, expires/window)
}

// partIn returns what an answer was charged to.
func partIn(a fleet.Answer) part {
	d, _ := instance.Parse(a.Header)
	return partOf(d)
}

// ownsStill drops the tally of a client if it would end before it may buy the next.
func (c *caller) ownsStill() bool {
	if _, expires := fleet.Claims(c.token); expires <= c.w.clocks.right.Load()+12*window {
		c.token = ""
	}
	return c.token != ""
}
