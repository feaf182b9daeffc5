// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/instance"
)

const (
	steadyEach  = 5 // requests of a round: an eighth of the quota, so that it has room whatever the clocks do
	browserEach = 6
	buyerEach   = 2
	bodyEach    = 2
	bodySize    = 64 << 10
)

// honest returns the honest clients, as what each does in a turn.
func (w *world) honest() (all []func(t turn)) {
	for i := range 16 {
		c := w.caller(windowed, "steady", i)
		all = append(all, func(t turn) { w.steadily(c, i, t) })
	}
	for i := range 3 {
		full, browser, body := &fullClient{caller: w.caller(windowed, "full", i)}, w.caller(windowed, "browser", i), w.caller(slow, "body", i)
		all = append(all, full.fill, func(t turn) { w.browse(browser, i, t) }, func(t turn) {
			for range t.share(bodyEach) {
				body.want(i, strings.Repeat("x", bodySize))
			}
		})
		two := w.caller(crew, "crew", i)
		all = append(all, func(t turn) {
			two.Together(2*t.share(1), func(n int) { // where four may be served at once
				if a := two.Ask(fleet.Request{To: n}); !a.Admitted() {
					two.unjust(a, "")
				}
			})
		})
		for _, policy := range []string{form, busy} {
			buyer := w.caller(policy, "buyer", i)
			all = append(all, func(t turn) { w.useOwn(buyer, i, t) })
		}
	}
	for _, policy := range []string{windowed, fixed, bucket, login} {
		for _, carrier := range []string{"header", "cookie", "neither"} {
			all = append(all, w.metered(policy, carrier))
		}
	}
	for i := range 2 {
		h := &holder{caller: w.caller(form, "holder", i), stays: i == 0}
		all = append(all, func(t turn) { h.use(i, t) })
	}
	return append(append(all, w.office()), w.streams()...)
}

// steadily uses an eighth of the quota, on one instance after the other: all of it is admitted,
// in a flood as without, and whatever the clocks do.
func (w *world) steadily(c *caller, i int, t turn) {
	phase := w.phase()
	for n := range t.share(steadyEach) {
		began := time.Now()
		a := c.send(i+n, "")
		for a.Status == 0 && w.restarting.Load() { // until the instance is there again
			time.Sleep(time.Millisecond)
			a = c.send(i+n, "")
		}
		phase.took.add(time.Since(began))
		phase.planned.Add(1)
		if a.Admitted() {
			phase.admitted.Add(1)
		} else {
			c.unjust(a, "")
		}
	}
}

// A fullClient asks for more than its quota, and echoes: so much it gets, and no more.
type fullClient struct {
	*caller
	oracle oracle
}

func (f *fullClient) fill(t turn) {
	w := f.w
	f.oracle.roll(w.clocks.right.Load()/window, !t.calm)
	for n := range t.share(int(quotaOf(windowed, 1)) + 5) {
		during := w.quotas[windowed].Begin()
		a := f.send(n, "")
		if a.Status == 0 {
			f.oracle.lost++
			continue
		}
		quota := during()
		switch {
		case a.Admitted() && !f.oracle.may(t.elapsed, quota, !t.calm):
			w.Excess.Note("%s: %+v of %d, %v into the window", f.name, f.oracle, quota.Most, t.elapsed)
		case !a.Admitted() && f.oracle.must(t.elapsed, quota, !t.calm):
			f.unjust(a, fmt.Sprintf("%+v of %d, %v into the window", f.oracle, quota.Least, t.elapsed))
		}
		if a.Admitted() {
			f.oracle.used()
		}
	}
}

// browse is a page with six requests at once, to one instance.
func (w *world) browse(c *caller, i int, t turn) {
	var wg sync.WaitGroup
	tabs := make([]caller, t.share(browserEach))
	for n := range tabs {
		tabs[n] = *c
		wg.Go(func() { tabs[n].want(i, "") })
	}
	wg.Wait()
	for n := range tabs {
		c.token = tabs[n].token // the last answer is what a jar keeps
	}
}

// useOwn buys a tally where it has none, and uses it everywhere.
func (w *world) useOwn(c *caller, i int, t turn) {
	if !c.ownsStill() {
		if !t.canBuy() {
			return
		}
		if c.token = c.buy(i, i+1); c.token == "" {
			return
		}
	}
	for n := range t.share(buyerEach) {
		c.want(i+n, "")
	}
}

// arrive is a client that nobody has seen before, at /busy. While the instance is calm it is let in. While it is busy,
// and where work comes first whatever the load, it is asked for work, and is let in with that.
func (w *world) arrive(i int) {
	c := w.caller(busy, "newcomer", i)
	during := w.workFirst.Begin()
	a := c.send(i, "")
	if a.Status == 0 || a.Admitted() {
		if a.Admitted() && !w.flooding.Load() {
			w.AtOnce.Add(1)
		}
		return
	}
	busy := during().Most == 0
	if busy && !w.flooding.Load() {
		c.unjust(a, "asked for work though nobody else has come")
	}
	if a = c.work(i, a); !a.Admitted() {
		c.unjust(a, "not let in with its work")
		return
	}
	if partIn(a) == bought {
		c.owns(a.Token())
	}
	if busy {
		w.Worked.Add(1)
	}
}

// metered is a client that uses 9 of 10 of what it may, with what an answer brings in a field, in a cookie, or nowhere. It knows of
// each refusal whether it can have been right. With a cookie it is at one instance.
func (w *world) metered(policy, carrier string) func(t turn) {
	c, m := w.caller(policy, "metered by "+carrier, 0), newMeter(policy)
	if carrier == "cookie" {
		w.over(c, true, overTLS)
	}
	return func(t turn) {
		if carrier == "cookie" && t.round%ofCycle == calmly { // what it had ends by clocks that no jar knows
			c.eyes.Via("").Jar, _ = cookiejar.New(nil) // it never fails without options
		}
		for n := range t.share(int(quotaOf(policy, 0) * 9 / 10)) {
			ask := fleet.Request{To: n, From: c.From[0]}
			if carrier == "cookie" {
				ask.To = 0
			}
			if carrier == "header" {
				ask.Tokens = []string{c.lives()}
			}
			if policy == login && n%4 == 0 {
				ask.Fields = []string{instance.Wrong, "1"}
			}
			during, from := w.quotas[policy].Begin(), w.clocks.right.Load()*1e6
			a := c.eyes.send(ask, "")
			at, quota := span{from, from}, during()
			d, decided := instance.Parse(a.Header)
			if !decided || !t.canBuy() {
				at = span{from - permitted*1e6, from + permitted*1e6}
			}
			switch {
			case d.Admitted || a.Status == 0:
				m.charge(at, quota, a.Status != http.StatusOK)
			case t.calm && m.room(at, quota):
				c.unjust(a.Answer, fmt.Sprintf("by the meter, %+v", quota))
			}
			if carrier == "header" && a.Token() != "" {
				c.token = a.Token()
			}
		}
	}
}

// office is people behind one address, who buy what that does not have, by the Go client of this repository.
func (w *world) office() func(t turn) {
	const people = 6
	c := w.caller(form, "caller", 0)
	var clients [people]*http.Client
	for i := range clients {
		named := transport(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("X-Forwarded-For", c.From[0])
			r.Header.Set(instance.ClientHeader, c.name)
			return w.client.Transport.RoundTrip(r)
		})
		clients[i] = &http.Client{Transport: &client.Transport{Base: named, MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}}
	}
	return func(t turn) {
		if !t.canBuy() {
			return
		}
		c.Together(people, func(i int) {
			for range 2 {
				resp, err := clients[i].Post(w.at(int(t.round))+"/"+form, "", nil)
				if err != nil {
					w.Lost.Note("the office: %v", err)
					return
				}
				if resp.StatusCode != http.StatusOK {
					w.Unjust.Note("the office: %s %s", resp.Status, resp.Header.Get(instance.DecisionHeader))
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
