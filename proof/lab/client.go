// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/fleet"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/players"
)

// A Client is a client of a row, and what it knows. Package players plays it, and sees the servers as a fleet.
type Client struct {
	*players.Attacker
	*scene
	Who
	Token string         // the newest, or its own tally's
	Named bool           // a proxy in front of the site names its address, which may be any
	Safe  bool           // it speaks HTTPS, with the proxy
	Jar   http.CookieJar // may be nil

	mu    sync.Mutex
	conns map[string]*http.Transport // by the address
}

// client returns one at some addresses, at a new one if there are none. It asks for some more than it may have, so that a
// bound that does not hold is exceeded, and not only reached.
func (s *scene) client(name string, from ...string) *Client {
	if from == nil {
		from = []string{s.Host()}
	}
	c := &Client{scene: s, Who: Who{Name: s.row + name}, conns: map[string]*http.Transport{}}
	c.Attacker = &players.Attacker{Fleet: (*seat)(c), From: from, Refusals: 3, Endless: 4*s.route.Quota + 40}
	return c
}

// attacker returns one at some addresses, at a new one if there are none.
func (s *scene) attacker(from ...string) *Client {
	c := s.client(house.Attacker, from...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attackers = append(s.attackers, c.Attacker)
	return c
}

// honest returns one of them.
func (s *scene) honest(from ...string) *Client {
	c := s.client("/honest", from...)
	c.Honest = true
	return c
}

// Told says how an answer was decided.
func Told(a fleet.Answer) string {
	return fmt.Sprintf("%d %s", a.Status, a.Header.Get(house.DecisionHeader))
}

// A seat is a client's view of the servers as a fleet.
type seat Client

func (s *seat) Instances() int { return len(s.where) }
func (s *seat) Fail(err error) { s.scene.Fail(err) }

func (s *seat) Together(n int, do func(i int)) { kit.Together(n, do) }

// Ask implements [fleet.Fleet]. The zero Answer is none.
func (s *seat) Ask(r fleet.Request) fleet.Answer {
	standing := s.House.Away.Now()
	a, err := (*Client)(s).try(r)
	if _, decided := house.Parse(a.Header); err == nil && a.Status >= http.StatusInternalServerError && !decided {
		err = fmt.Errorf("%s on /%s: %d", s.Name, s.row, a.Status)
	}
	if err != nil {
		s.lost(standing, err)
		return fleet.Answer{}
	}
	return a
}

func (c *Client) try(r fleet.Request) (a fleet.Answer, err error) {
	site := c.At(r.To)
	if c.Safe {
		site = "https://" + c.House.Proxy.Safe
	}
	req, err := http.NewRequestWithContext(c.Ctx, cmp.Or(r.Method, http.MethodPost), site+"/"+c.row+r.Path, nil)
	if err != nil {
		return a, err
	}
	req.Header = r.Header()
	if !c.Honest {
		c.sent.Add(1)
	}
	resp, err := (&http.Client{Jar: c.Jar, Transport: trip(func(req *http.Request) (*http.Response, error) { return c.send(r.From, req) })}).Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return fleet.Answer{Status: resp.StatusCode, Header: resp.Header}, err
}

// A trip is how a request is sent.
type trip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Polite returns the Go client of this repository, at the first address of this one, which may change.
func (c *Client) Polite() *http.Client {
	base := trip(func(r *http.Request) (*http.Response, error) { return c.send(c.Attacker.From[0], r) })
	return &http.Client{Transport: &client.Transport{Base: base, MaxWait: -1, MaxSolves: 8, MaxAttempts: 20, Workers: 1}}
}

// Post sends one request of a polite client to the balancer, and returns the status of the answer; 0 if there is none.
func (c *Client) Post(polite *http.Client) (status int) {
	standing := c.House.Away.Now()
	resp, err := polite.Post(c.At(fleet.Balancer)+"/"+c.row, "", nil)
	if err == nil {
		status = resp.StatusCode
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		c.lost(standing, err)
	}
	return status
}

// send sends a request from an address, and tells the oracle of it and of its answer.
func (c *Client) send(from string, r *http.Request) (resp *http.Response, err error) {
	r = r.Clone(r.Context())
	r.Header.Set(house.ClientHeader, c.Name)
	if c.Named {
		r.Header.Set("X-Forwarded-For", from)
	}
	judged := c.begin(&c.Who, from, r)
	resp, err = c.dial(from).RoundTrip(r)
	if judged != nil {
		judged.end(resp)
	}
	return resp, err
}

// dial returns the connections from an address.
func (c *Client) dial(from string) http.RoundTripper {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.Named:
		return c.named
	case c.conns[from] == nil:
		c.conns[from] = c.Dialer(from)
	}
	return c.conns[from]
}

// Lives returns the token of a client while that lives.
func (c *Client) Lives() string {
	if _, ends := fleet.Claims(c.Token); ends <= c.House.Clock.Load() {
		c.Token = "" // as a browser does with a cookie
	}
	return c.Token
}

// Send shows the token of an honest client while that lives, and keeps the next: its own tally's, if it has one.
func (c *Client) Send(to int) (admitted bool) {
	a := c.Ask(fleet.Request{To: to, Tokens: []string{c.Lives()}})
	c.Keep(a.Token())
	return a.Admitted()
}

// Keep keeps a token, but for one of its address where it has a tally of its own.
func (c *Client) Keep(token string) {
	had, _ := fleet.Claims(c.Token)
	if own, _ := fleet.Claims(token); token != "" && (own != "" || had == "") {
		c.Token = token
	}
}

// Purchase buys a tally by the challenge of one instance at another one, and keeps its token.
func (c *Client) Purchase(seller, redeemer int) bool {
	token := c.Redeem(redeemer, "", c.Solve(c.Challenge(seller, "")))
	c.Keep(token)
	return token != ""
}
