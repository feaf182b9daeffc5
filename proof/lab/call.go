// SPDX-License-Identifier: Apache-2.0

package main

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
	Honest bool   // its refusals are judged
	Strict bool   // and so is a token that is not accepted
}

// A call is a request on its way.
type call struct {
	*Oracle
	l    *Who
	mine *used
	own  []*used
}

// begin notes that a request is on its way; nil if it asks no policy.
func (o *Oracle) begin(l *Who, from string, r *http.Request) *call {
	if strings.Contains(r.URL.Path, "/tally/") {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &call{Oracle: o, l: l, mine: o.of(from)}
	c.own = c.bought(r.Header, r.Cookies())
	for _, u := range c.usable() {
		u.underway++
	}
	return c
}

// bought returns the bought tallies that have a token. No key is needed to read that.
func (c *call) bought(h http.Header, cookies []*http.Cookie) (all []*used) {
	tokens := h.Values(middleware.TokenHeader)
	for _, cookie := range cookies {
		if cookie.Name == c.Cookie {
			tokens = append(tokens, cookie.Value)
		}
	}
	for _, token := range tokens {
		if id, _ := fleet.Claims(token); id != "" {
			all = append(all, c.of(id))
		}
	}
	return all
}

// usable are what may have room for a request.
func (c *call) usable() []*used {
	if c.route.Mode == newcomers { // an address has no tally for nothing: it has what it buys
		return c.own
	}
	return append([]*used{c.mine}, c.own...)
}

// end notes an answer; nil if there is none. Then the request may have been charged.
func (c *call) end(resp *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var d house.Decision
	decided := false
	if resp != nil {
		d, decided = house.Parse(resp.Header)
	}
	answered := decided || resp != nil && resp.StatusCode < http.StatusInternalServerError
	for _, u := range c.usable() {
		u.underway--
		if !answered {
			u.charged++
		}
		u.inherited = u.inherited || d.Inherited > 0
	}
	switch {
	case !decided:
		return
	case d.Admitted:
		c.admitted(d, append(c.bought(resp.Header, resp.Cookies()), c.own...))
	case c.l.Honest:
		c.refused(d)
	}
	if c.l.Strict && d.TokenErr != "" {
		c.Unjust.Note("%s: a token is not accepted: %s", c.l.Name, d.TokenErr)
	}
}

func (c *call) admitted(d house.Decision, own []*used) {
	if c.l.Honest {
		c.Served.Add(1)
		for _, u := range c.own {
			if !d.Own && !d.Room && c.room(u) {
				c.note(d, u)
			}
		}
	}
	switch {
	case d.Room || d.Degraded: // it is another tally's, or no counter has decided
	case !d.Own:
		c.mine.charged++
	case len(own) > 0:
		own[0].charged++
	}
}

func (c *call) refused(d house.Decision) {
	switch {
	case c.route.Mode == newcomers && len(c.own) == 0 || c.route.Mode == everyRequest && d.Reason != string(middleware.OverLimit):
		c.Asked.Add(1)
		return
	case d.Degraded || c.route.Parts > 0 && d.Reason == string(middleware.Overloaded): // it may wait in vain for peers
		c.Busy.Add(1)
		return
	}
	c.Refused.Add(1)
	var roomy []*used
	for _, u := range c.usable() {
		if c.room(u) {
			roomy = append(roomy, u)
		}
	}
	c.note(d, roomy...)
}

// note notes a refusal of a client although some of its tallies had room.
func (c *call) note(d house.Decision, roomy ...*used) {
	if len(roomy) > 0 {
		c.early = append(c.early, early{roomy, fmt.Sprintf("%s: %s", c.l.Name, d)})
	}
}
