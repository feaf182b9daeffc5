// SPDX-License-Identifier: Apache-2.0

// Package fleet is the instances of a site as its clients see them: a request, its answer, and whatever answers, be that
// real processes behind a proxy, instances of one process, or instances whose clock is moved by hand.
package fleet

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// A Fleet is the instances of a site, as its clients see them.
type Fleet interface {
	// Instances is how many there are now.
	Instances() int

	// Ask sends a request. Where none is answered the fleet notes why, and the zero Answer is a refusal.
	// It is called by many at once within Together alone.
	Ask(Request) Answer

	// Together calls do for 0 to n−1, at once if the fleet is a real one and in order if it is played, and
	// returns when all have returned.
	Together(n int, do func(i int))

	// Fail notes that an attacker cannot do what it means to, which is no merit of the site: no verdict counts.
	Fail(error)
}

// Balancer is the Request.To of a client that leaves the choice of the instance to the balancer.
const Balancer = -1

// Paths below a route's own, for Request.Path.
const (
	ChallengePath = "/tally/challenge"
	RedeemPath    = "/tally/redeem"
	TicketPath    = "/tally/ticket"
)

// A Request is one of a client to a route that is limited.
type Request struct {
	To     int      // the instance, or Balancer
	From   string   // the address of the client, as the fleet writes addresses
	Method string   // "": POST
	Path   string   // below the route's path; "" is the limited handler
	Tokens []string // each in a field of its own; "" is none
	Proof  string
	Cookie string   // all of them; a client with cookies asks for a page
	Cost   int64    // that many requests in one; 0 does not say
	Fields []string // further fields, names and values in turn
}

// Header returns the fields of the request. The cost is in none: that is the fleet's.
func (r Request) Header() http.Header {
	h := http.Header{}
	for _, t := range r.Tokens {
		if t != "" {
			h.Add(middleware.TokenHeader, t)
		}
	}
	if r.Proof != "" {
		h.Set(middleware.ProofHeader, r.Proof)
	}
	if r.Cookie != "" {
		h.Set("Cookie", r.Cookie)
	}
	if r.Cookie != "" || r.Path == TicketPath {
		h.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	}
	for i := 0; i+1 < len(r.Fields); i += 2 {
		h.Add(r.Fields[i], r.Fields[i+1])
	}
	return h
}

// An Answer is the response to a client.
type Answer struct {
	Status int
	Header http.Header
}

// Admitted reports whether the request was.
func (a Answer) Admitted() bool { return a.Status >= 200 && a.Status < 400 }

// Token is the newest token of the client, or "".
func (a Answer) Token() string { return a.Header.Get(middleware.TokenHeader) }

// Challenge is what the client can work for.
func (a Answer) Challenge() (c pow.Challenge, ok bool) {
	text := a.Header.Get(middleware.ChallengeHeader)
	if text == "" {
		return c, false
	}
	c, err := pow.ParseHeader(text)
	return c, err == nil
}

// Ticket is the cookie of a ticket for the waiting room, as it is shown, or "".
func (a Answer) Ticket() string {
	for _, c := range a.Header.Values("Set-Cookie") {
		if pair, _, _ := strings.Cut(c, ";"); strings.Contains(pair, ".wait=") {
			return pair
		}
	}
	return ""
}

// Claims returns which tally of its own a token says that it is of, "" for a shared one, and when it ends. No key is
// needed to read that.
func Claims(token string) (own string, expires int64) {
	var claims struct {
		Fam string
		Exp int64
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err != nil || json.Unmarshal(text, &claims) != nil {
			return "", 0
		}
	}
	return claims.Fam, claims.Exp
}
