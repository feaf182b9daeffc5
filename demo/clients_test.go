// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	polite "github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// Clients that prove work by themselves, and several behind one address.

func TestHonestClientsBesideOneThatFloods(t *testing.T) {
	s := start(t, 1)
	flood := s.client(t)
	require.Equal(t, 5, admitted(t, 50, func() answer { return flood.contact() }))
	last := int64(0)
	for i := range 8 { // as many as the crowd is expected to be
		c := s.client(t)
		a := c.contact()
		work := *a.details(t).Work
		require.GreaterOrEqual(t, int64(work), last)
		require.Less(t, int64(work), int64(2*cheap), "client %d", i+1)
		last = int64(work)
		require.Equal(t, http.StatusOK, c.pay(a).StatusCode)
		require.Equal(t, 4, admitted(t, 6, func() answer { return c.echo() }), "client %d", i+1)
		require.Zero(t, admitted(t, 5, func() answer { return flood.contact() }))
	}
	require.EqualValues(t, 2*cheap, *s.client(t).contact().details(t).Work, "the next crowd pays double")
}

func TestSignupsBehindOneAddressDoNotShare(t *testing.T) {
	s := start(t, 3)
	for range 5 {
		c := s.client(t)
		passed := 0
		for a := c.pay(c.signup()); a.StatusCode == http.StatusOK; a = c.signup() {
			passed++
		}
		require.Equal(t, 3, passed)
	}
}

func TestGoClient(t *testing.T) {
	for _, instances := range []int{1, 3} {
		s := start(t, instances)
		base := new(http.Transport)
		t.Cleanup(base.CloseIdleConnections)
		var solved []string
		c := http.Client{Timeout: patient, Transport: &polite.Transport{
			Base:    base,
			MaxWait: -1, // the demo's clock stands still
			Observe: func(e polite.Event) {
				if e.Action == "solving" {
					solved = append(solved, e.Request.URL.Path)
				}
			},
		}}
		post := func(path, form string) int {
			a, err := c.Post(s.url+path, "application/x-www-form-urlencoded", strings.NewReader(form))
			require.NoError(t, err)
			require.NoError(t, a.Body.Close())
			return a.StatusCode
		}
		for path, test := range map[string]struct {
			form         string
			sent, solves int
		}{
			"/contact":    {goodContact, 7, 1},     // 5 shared, the rest of its own
			"/newsletter": {goodNewsletter, 10, 0}, // all there is
			"/signup":     {goodSignup, 5, 2},      // 3 of one tally, the rest of another
			"/feedback":   {goodFeedback, 4, 4},    // one for each
		} {
			solved = nil
			for i := range test.sent {
				require.Equal(t, http.StatusOK, post(path, test.form), "%s, request %d", path, i+1)
			}
			require.Len(t, solved, test.solves, path)
		}
		require.Equal(t, http.StatusTooManyRequests, post("/newsletter", goodNewsletter))
	}
}

func TestPythonSolver(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		kit.Unable(t, "there is no python3")
	}
	solve := func(a answer) string {
		cmd := exec.CommandContext(t.Context(), python, "../pow/testdata/solve.py", a.Header.Get(middleware.ChallengeHeader))
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		var trouble bytes.Buffer
		cmd.Stderr = &trouble
		proof, err := cmd.Output()
		require.NoError(t, err, trouble.String())
		return middleware.ProofHeader + ": " + strings.TrimSpace(string(proof))
	}
	o := standard(3)
	o.work = pow.DefaultWork
	c := startWith(t, o).client(t).withJar()

	require.Equal(t, http.StatusOK, c.signup(solve(c.signup())).StatusCode)
	require.Equal(t, 2, admitted(t, 3, func() answer { return c.signup() }))

	proof := solve(c.feedback())
	require.Equal(t, http.StatusOK, c.feedback(proof).StatusCode)

	require.Equal(t, 5, admitted(t, 5, func() answer { return c.contact() }))
	a := c.contact(solve(c.contact()))
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=4`, "a tally of its own")
}
