// SPDX-License-Identifier: Apache-2.0

package court

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/lab/house"
)

// Who is a client, as the oracle knows it.
type Who struct {
	Name   string // by which the instances count it
	Policy string // whose route it is on
	Honest bool   // its refusals are judged
	Echoes bool   // it always shows its newest token, so that its admissions are judged
}

// kind is what clients of one kind are called.
func (w *Who) kind() string {
	if w.Honest {
		return "honest"
	}
	kind, _, _ := strings.Cut(w.Name, " ")
	return kind
}

// A call is a request on its way.
type call struct {
	*Oracle
	l     *Who
	t     *Terms
	mine  tally
	own   []tally
	quota func() Spread
}

// begin notes that a request is on its way; nil if its policy is not judged, or is not asked.
func (o *Oracle) begin(l *Who, from string, r *http.Request) *call {
	t := o.terms[l.Policy]
	if t == nil || strings.Contains(r.URL.Path, "/tally/") {
		return nil
	}
	c := &call{Oracle: o, l: l, t: t, mine: tally{l.Policy, shared, from}, quota: t.Quota.Begin()}
	c.own = c.bought(r.Header, r.Cookies())
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range c.usable() {
		u.underway++
	}
	return c
}

// bought returns the bought tallies that have a token. No key is needed to read that.
func (c *call) bought(h http.Header, cookies []*http.Cookie) (all []tally) {
	tokens := h.Values(middleware.TokenHeader)
	for _, cookie := range cookies {
		if cookie.Name == Cookie(c.l.Policy) {
			tokens = append(tokens, cookie.Value)
		}
	}
	for _, token := range tokens {
		if id, ends := fleet.Claims(token); id != "" {
			t := tally{c.l.Policy, bought, id}
			c.mu.Lock()
			c.of(t).ends = ends
			c.mu.Unlock()
			all = append(all, t)
		}
	}
	return all
}

// Cookie is the name of the cookie of a policy.
func Cookie(policy string) string { return "__Host-tallystick-" + policy }

// usable are what may have room for a request.
func (c *call) usable() (all []*used) {
	if !c.t.Sold {
		all = append(all, c.of(c.mine))
	}
	for _, t := range c.own {
		all = append(all, c.of(t))
	}
	return all
}

// done notes that a request is under way no more. Where it had no answer, it may have been charged.
func (c *call) done(answered bool) {
	for _, u := range c.usable() {
		u.underway--
		if answered {
			continue
		}
		now := c.clock.Load()
		u.unanswered[now/c.t.Window]++
		u.owe(c.t, now+permitted, c.quota())
	}
}

// end notes an answer; nil if there is none.
func (c *call) end(resp *http.Response) {
	var d house.Decision
	decided := false
	var brought []tally
	if resp != nil {
		d, decided = house.Parse(resp.Header)
		brought = c.bought(resp.Header, resp.Cookies())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done(decided || resp != nil && resp.StatusCode < http.StatusInternalServerError)
	if !decided {
		return
	}
	c.Decisions.Add(1)
	if d.TokenErr != "" && c.l.Honest && c.Strict {
		// After a clock was wrong by far the tokens that it has signed may have ended.
		if c.Touched.Load() && d.Late {
			c.Ended.Add(1)
		} else {
			c.TokenErrors.Note("%s on /%s: %s", c.l.Name, c.l.Policy, d.TokenErr)
		}
	}
	if d.Inherited > 0 {
		for _, u := range c.usable() {
			u.inherited = true
		}
	}
	if d.Admitted {
		c.admitted(d, resp.StatusCode, append(brought, c.own...))
	} else if c.l.Honest {
		c.refused(d)
	}
}

func (c *call) admitted(d house.Decision, status int, own []tally) {
	t, quota := c.mine, c.quota()
	switch {
	case d.Room:
		t.part = waited
	case d.Own && len(own) > 0:
		t = own[0]
	case d.Own:
		t.part = bought
	}
	u := c.of(t)
	if c.l.Honest {
		c.Served.Add(1)
		if c.l.Echoes && !c.Touched.Load() && !d.Room && (d.Own || !c.t.Sold) && !u.may(c.t, d.At, quota) {
			c.Excess.Note("%s on /%s: %d of %d: %s", c.l.Name, c.l.Policy, u.known(d.At/c.t.Window), quota.Most, d)
		}
		for _, own := range c.own {
			if !d.Own && !d.Room && c.of(own).room(c.t, d.At, c.apart(), quota, c.Touched.Load()) {
				c.note(d, c.of(own))
			}
		}
	}
	if d.Degraded {
		return // no counter has decided
	}
	c.charge(t, d, quota)
	u.owe(c.t, d.At+c.apart(), quota)
	if status != http.StatusOK && c.t.Wrong != nil {
		t.part = wrong
		c.charge(t, d, c.t.Wrong.Quota.Begin()())
	}
}

func (c *call) charge(t tally, d house.Decision, quota Spread) {
	u, window := c.of(t), d.At/c.t.Window
	if c.t.Exact {
		d.Place = everywhere
	}
	u.by[place{d.Place, window}]++
	u.most[window] = max(u.most[window], quota.Most)
	u.kind = c.l.kind()
}

func (c *call) refused(d house.Decision) {
	if c.t.Sold && len(c.own) == 0 || c.t.Each && d.Reason != string(middleware.OverLimit) {
		c.Asked.Add(1)
		return
	}
	if d.Degraded || (c.t.Hears || c.t.Exact) && d.Reason == string(middleware.Overloaded) {
		c.Busy.Add(1)
		return
	}
	c.Refused.Add(1)
	if w := c.t.Wrong; w != nil && !c.of(tally{c.l.Policy, wrong, c.mine.of}).room(w, d.At, 0, w.Quota.Begin()(), c.Touched.Load()) {
		return
	}
	var roomy []*used
	for _, u := range c.usable() {
		if u.room(c.t, d.At, c.apart(), c.quota(), c.Touched.Load()) {
			roomy = append(roomy, u)
		}
	}
	c.note(d, roomy...)
}

// note notes a refusal of a client although some of its tallies had room.
func (c *call) note(d house.Decision, roomy ...*used) {
	if len(roomy) > 0 {
		c.early = append(c.early, early{roomy, fmt.Sprintf("%s on /%s: %s", c.l.Name, c.l.Policy, d)})
	}
}
