// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
)

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
