// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

// What the forms that ask for work let through.

const proofRequired = "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#proof-required"

// challenge returns the challenge of a refusal, which must be the same in the
// field and in the body.
func (a answer) challenge(t *testing.T) pow.Challenge {
	t.Helper()
	c, err := pow.ParseHeader(a.Header.Get(middleware.ChallengeHeader))
	require.NoError(t, err, a.body)
	if a.Header.Get("Content-Type") == "application/problem+json" {
		p := a.details(t)
		require.Equal(t, c.Text, p.Challenge)
		require.NotNil(t, p.Work)
		require.Equal(t, c.Work, *p.Work)
		require.Equal(t, int64(c.TTL/time.Second), p.TTL)
	}
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	return c
}

// prove solves the challenge of a refusal: the field to send.
func (a answer) prove(t *testing.T) string {
	t.Helper()
	proof, err := pow.Solve(t.Context(), a.challenge(t).Text, pow.SolveOptions{})
	require.NoError(t, err)
	return middleware.ProofHeader + ": " + proof
}

// pay sends again what was refused with a challenge, with the proof. What was
// refused without one, or not at all, comes back as it is.
func (c *client) pay(a answer) answer {
	c.t.Helper()
	if a.Header.Get(middleware.ChallengeHeader) == "" {
		return a
	}
	again := a.Request.Clone(c.t.Context())
	body, err := again.GetBody()
	require.NoError(c.t, err)
	again.Body = body
	again.Header.Set(middleware.ProofHeader, a.prove(c.t)[len(middleware.ProofHeader+": "):])
	return c.send(again)
}

// refusedFor requires a 403 that asks for work, and says why.
func refusedFor(t *testing.T, reason middleware.Reason, a answer) {
	t.Helper()
	require.Equal(t, http.StatusForbidden, a.StatusCode, a.body)
	a.challenge(t)
	p := a.details(t)
	require.Equal(t, proofRequired, p.Type)
	require.Equal(t, reason, p.Reason)
	require.Empty(t, a.Header.Get("Retry-After"), "waiting does not help")
}

func TestSignupBeginsWithAProof(t *testing.T) {
	for _, instances := range []int{1, 3} {
		s := start(t, instances)
		c := s.client(t)
		first := c.signup()
		refusedFor(t, middleware.NoToken, first)
		require.EqualValues(t, cheap, *first.details(t).Work)
		require.Equal(t, "/tally/signup/challenge", first.details(t).ChallengeURL)
		require.Equal(t, "/tally/signup/redeem", first.details(t).RedeemURL)
		require.Empty(t, first.Header.Get(middleware.TokenHeader))

		a := c.pay(first)
		for i := range 3 {
			require.Equal(t, http.StatusOK, a.StatusCode, "request %d of 3: %s", i+1, a.body)
			require.Contains(t, a.Header.Get("RateLimit"), `"signup";r=`+strconv.Itoa(2-i))
			require.NotEmpty(t, a.Header.Get(middleware.TokenHeader))
			a = c.signup()
		}
		require.Equal(t, http.StatusTooManyRequests, a.StatusCode)
		require.Equal(t, []string{"signup"}, a.details(t).Violated)
		require.Equal(t, middleware.OverLimit, a.details(t).Reason)

		s.wait(t, a)
		require.Equal(t, http.StatusOK, c.signup().StatusCode, "after Retry-After")
	}
}

func TestSignupProofOpensOneTallyHoweverOftenItIsSent(t *testing.T) {
	for instances, most := range map[int]int{1: 3, 3: 9} {
		c := start(t, instances).client(t)
		proof := c.do("POST", "/signup", goodSignup, urlencoded).prove(t)
		require.Equal(t, most, admitted(t, 30, func() answer {
			return c.do("POST", "/signup", goodSignup, urlencoded, proof)
		}))
	}
}

func TestFeedbackNeedsAProofEachTime(t *testing.T) {
	c := start(t, 1).client(t)
	for i := range 20 {
		first := c.feedback(c.withToken(nil)...)
		refusedFor(t, middleware.NoToken, first)
		proof := first.prove(t)
		a := c.feedback(c.withToken([]string{proof})...)
		require.Equal(t, http.StatusOK, a.StatusCode, "request %d of 20: %s", i+1, a.body)
		require.Contains(t, a.Header.Get("RateLimit"), `"feedback";r=`+strconv.Itoa(19-i))
		if i < 19 {
			refusedFor(t, "replayed", c.feedback(proof))
		}
	}
	a := c.pay(c.feedback())
	require.Equal(t, http.StatusTooManyRequests, a.StatusCode, a.body)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Empty(t, a.Header.Get(middleware.ChallengeHeader), "work buys no more here")
}

func TestFeedbackProofBuysOneRequestOfEachInstance(t *testing.T) {
	c := start(t, 3).client(t)
	proof := c.feedback().prove(t)
	passed := 0
	for range 12 {
		a := c.feedback(proof)
		if a.StatusCode == http.StatusOK {
			passed++
			continue
		}
		refusedFor(t, "replayed", a)
	}
	require.Equal(t, 3, passed)
}

func TestWhyAProofIsRefused(t *testing.T) {
	s := start(t, 1)
	c := s.client(t)
	proof := c.feedback().prove(t)
	refusedFor(t, "wrong-solution", c.feedback(proof+"1"))
	refusedFor(t, "wrong-solution", c.feedback(middleware.ProofHeader+": nonsense"))
	refusedFor(t, "client-changed", c.do("POST", "/signup", goodSignup, urlencoded, proof))
	s.seconds.Add(11)
	refusedFor(t, "expired", c.feedback(proof))
}

func TestContactSellsATallyOnceTheSharedOneIsSpent(t *testing.T) {
	for _, instances := range []int{1, 3} {
		c := start(t, instances).client(t)
		require.Equal(t, 5, admitted(t, 5, func() answer { return c.echo() }))
		refused := c.echo()
		require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
		require.Equal(t, middleware.OverLimit, refused.details(t).Reason)
		require.NotEmpty(t, refused.Header.Get("Retry-After"), "or wait")

		a := c.pay(refused)
		require.Equal(t, http.StatusOK, a.StatusCode, a.body)
		require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=4`)
		more := 1 + admitted(t, 40, func() answer { return c.echo() })
		if instances == 1 {
			require.Equal(t, 5, more)
		}
		// The client has one token. What it carries of its own tally now, it no
		// longer carries of the shared one: of that each instance knows its part.
		require.GreaterOrEqual(t, more, 5)
		require.LessOrEqual(t, 5+more, instances*5*(1+1), "N·L·(1+F)")
	}
}

func TestCrowd(t *testing.T) {
	o := standard(1)
	o.crowd = 1
	s := startWith(t, o)
	for i := range 6 { // the price doubles with every one, and no cap stops it
		c := s.client(t)
		first := c.signup()
		require.EqualValues(t, cheap<<i, *first.details(t).Work)
		require.Equal(t, http.StatusOK, c.pay(first).StatusCode)
	}
	s.seconds.Add(90 * 60)
	require.EqualValues(t, cheap, *s.client(t).signup().details(t).Work, "all has leaked")
}

func TestStockOfChallengesIsWorthTodaysPrice(t *testing.T) {
	o := standard(1)
	o.crowd = 2
	s := startWith(t, o)
	c := s.client(t)
	one, two, three := c.signup(), c.signup(), c.signup()
	require.Equal(t, http.StatusOK, c.pay(one).StatusCode)
	require.Equal(t, http.StatusOK, s.client(t).pay(two).StatusCode, "worth two thirds of it")
	a := s.client(t).pay(three)
	refusedFor(t, "price-risen", a)
	require.EqualValues(t, 2*cheap, *a.details(t).Work)
}

func TestWorkFlag(t *testing.T) {
	o := standard(1)
	o.work = 0
	c := startWith(t, o).client(t)
	a := c.feedback()
	refusedFor(t, middleware.NoToken, a)
	require.Zero(t, *a.details(t).Work)
	require.Equal(t, http.StatusOK, c.pay(a).StatusCode)
	require.EqualValues(t, pow.DefaultWork, *c.signup().details(t).Work, "what costs nothing is no limit")

	o.work = 4096
	c = startWith(t, o).client(t)
	for _, a := range []answer{c.signup(), c.feedback()} {
		require.EqualValues(t, 4096, *a.details(t).Work)
	}
}

// The endpoints of the policies, and what browsers are told.

func TestEndpointsSellTallies(t *testing.T) {
	c := start(t, 3).client(t) // each step on another instance
	for _, policy := range []string{"contact", "signup"} {
		terms := c.do("GET", tallyPath(policy)+"challenge", "")
		require.Equal(t, http.StatusOK, terms.StatusCode, terms.body)
		var offered details
		require.NoError(t, json.Unmarshal([]byte(terms.body), &offered))
		proof, err := pow.Solve(t.Context(), offered.Challenge, pow.SolveOptions{})
		require.NoError(t, err)

		first := c.do("POST", tallyPath(policy)+"redeem", "", middleware.ProofHeader+": "+proof)
		require.Equal(t, http.StatusOK, first.StatusCode, first.body)
		require.NotEmpty(t, c.last)
		require.Len(t, first.Cookies(), 1)
		again := c.do("POST", tallyPath(policy)+"redeem", "", middleware.ProofHeader+": "+proof)
		require.Equal(t, first.Header.Get(middleware.TokenHeader), again.Header.Get(middleware.TokenHeader))
	}
	require.Equal(t, http.StatusOK, c.signup().StatusCode)
}

func TestEndpointSellsASingleRequestToAForm(t *testing.T) {
	c := start(t, 1).client(t).withJar()
	proof := c.feedback().prove(t)
	require.Equal(t, http.StatusOK, c.do("POST", "/tally/feedback/redeem", "", proof).StatusCode)
	require.Equal(t, http.StatusSeeOther, c.feedback(likeBrowser).StatusCode, "the jar carries the proof")
	require.Equal(t, http.StatusForbidden, c.feedback(likeBrowser).StatusCode)
}

func TestEndpointsRefuse(t *testing.T) {
	c := start(t, 1).client(t)
	require.Equal(t, http.StatusMethodNotAllowed, c.do("GET", "/tally/signup/redeem", "").StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, c.do("POST", "/tally/signup/challenge", "").StatusCode)
	require.Equal(t, http.StatusNotFound, c.do("GET", "/tally/signup/", "").StatusCode)
	require.Equal(t, http.StatusForbidden, c.do("POST", "/tally/signup/redeem", "", "Sec-Fetch-Site: cross-site").StatusCode)
	refusedFor(t, middleware.NoToken, c.do("POST", "/tally/signup/redeem", ""))
	refusedFor(t, "client-changed", c.do("POST", "/tally/signup/redeem", "", c.feedback().prove(t)))
}

func TestBrowserIsToldWhatToDo(t *testing.T) {
	c := start(t, 1).client(t)
	const notice = "This wants a little work from your browser first."
	require.Equal(t, 3, strings.Count(c.do("GET", "/forms", "", likeBrowser).body, "<tally-check "))
	for _, path := range []string{"/signup", "/feedback"} {
		a := c.do("POST", path, "", urlencoded, likeBrowser)
		require.Equal(t, http.StatusForbidden, a.StatusCode)
		require.Equal(t, "text/html; charset=utf-8", a.Header.Get("Content-Type"))
		require.Contains(t, a.body, "<h1>Proof of work required</h1>")
		require.Contains(t, a.body, notice)
	}
}
