// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
			a := kit.Must(c.Post(s.url+path, "application/x-www-form-urlencoded", strings.NewReader(form)))(t)
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

// What the forms let through: the bounds of the README, over real connections.

func TestEchoingClientGetsExactlyTheQuota(t *testing.T) {
	for _, instances := range []int{1, 3} {
		s := start(t, instances)
		c := s.client(t)
		for i := range 5 {
			a := c.echo()
			require.Equal(t, http.StatusOK, a.StatusCode, "request %d of 5", i+1)
			require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=`+strconv.Itoa(4-i))
		}
		refused := c.echo()
		require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
		p := refused.details(t)
		require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", p.Type)
		require.Equal(t, []string{"contact"}, p.Violated)

		s.wait(t, refused)
		require.Equal(t, http.StatusOK, c.echo().StatusCode, "after Retry-After")
	}
}

func TestEchoingClientMeetsTheQuotaOfTheDay(t *testing.T) {
	s := start(t, 3)
	c := s.client(t)
	passed := 0
	for range 100 {
		a := c.echo()
		if a.StatusCode == http.StatusOK {
			passed++
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, a.StatusCode)
		if slices.Contains(a.details(t).Violated, "contact-24h") {
			require.Equal(t, 50, passed)
			s.wait(t, a)
			require.Equal(t, http.StatusOK, c.echo().StatusCode, "after Retry-After")
			return
		}
		s.wait(t, a)
	}
	t.Fatal("the quota of the day was never met")
}

func TestDroppingTheTokenGainsOneQuotaPerInstance(t *testing.T) {
	for instances, most := range map[int]int{1: 5, 3: 15} {
		c := start(t, instances).client(t)
		require.Equal(t, most, admitted(t, 60, func() answer { return c.contact() }))
	}
}

func TestReplayingTheFirstTokenGainsNoMore(t *testing.T) {
	for instances, most := range map[int]int{1: 5, 3: 15} {
		c := start(t, instances).client(t)
		require.Equal(t, http.StatusOK, c.contact().StatusCode)
		first := middleware.TokenHeader + ": " + c.last
		passed := 1 + admitted(t, 60, func() answer { return c.contact(first) })
		require.LessOrEqual(t, passed, most)
		if instances == 1 {
			require.Equal(t, most, passed)
		}
	}
}

func TestParallelClientsWithOneCookieJar(t *testing.T) {
	c := start(t, 1).client(t).withJar()
	var passed atomic.Int64
	kit.Together(6, func(int) {
		for range 3 {
			a, err := c.http.Post(c.url+"/contact", "application/x-www-form-urlencoded", strings.NewReader(goodContact))
			if err != nil {
				t.Error(err)
				return
			}
			_ = a.Body.Close()
			if a.StatusCode == http.StatusOK {
				passed.Add(1)
			}
		}
	})
	require.EqualValues(t, 5, passed.Load())
}

func TestCookieJarCountsAcrossInstances(t *testing.T) {
	c := start(t, 3).client(t).withJar()
	require.Equal(t, 5, admitted(t, 20, func() answer { return c.contact() }))
}

func TestSpentNewsletterTokenMeansNothingToContact(t *testing.T) {
	c := start(t, 1).client(t)
	require.Equal(t, 10, admitted(t, 12, func() answer { return c.newsletter() }))
	spent := middleware.TokenHeader + ": " + c.last
	for i := range 5 {
		a := c.contact(spent)
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=`+strconv.Itoa(4-i))
	}
	require.Equal(t, http.StatusTooManyRequests, c.contact(spent).StatusCode)
}

func TestTokenFromAnotherAddressIsAsIfAbsent(t *testing.T) {
	const other = "127.0.0.2"
	if probe, err := net.Listen("tcp", other+":0"); err != nil {
		kit.Unable(t, "there is no %s: %v", other, err)
	} else {
		_ = probe.Close()
	}
	s := start(t, 1)
	spender := s.client(t)
	require.Equal(t, 5, admitted(t, 6, func() answer { return spender.echo() }))
	require.Equal(t, http.StatusTooManyRequests, spender.contact().StatusCode)

	neighbour := s.clientFrom(t, other)
	neighbour.last = spender.last
	a := neighbour.echo()
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.Header.Get("RateLimit"), `"contact";r=4`)
	require.Equal(t, 4, admitted(t, 10, func() answer { return neighbour.echo() }))
}

func TestBadInputIsCharged(t *testing.T) {
	c := start(t, 1).client(t)
	for range 5 {
		a := c.do("POST", "/contact", "email=nonsense", urlencoded)
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode)
		require.NotEmpty(t, a.Header.Get(middleware.TokenHeader))
	}
	require.Equal(t, http.StatusTooManyRequests, c.contact().StatusCode)
}

func TestRequestsGoToTheInstancesInTurn(t *testing.T) {
	c := start(t, 3).client(t)
	requests := []func() answer{
		func() answer { return c.do("GET", "/", "") },
		func() answer { return c.contact() },
		func() answer { return c.newsletter() },
		func() answer { return c.do("GET", "/healthz", "") },
		func() answer { return c.do("GET", "/nothing-here", "") },
		func() answer { return c.do("POST", "/contact", "", urlencoded) },
		func() answer { return c.newsletter("Sec-Fetch-Site: cross-site") },
		func() answer { return c.do("GET", "/tally/signup/challenge", "") },
	}
	for i, send := range requests {
		require.Equal(t, []string{strconv.Itoa(i%3 + 1)}, send().Header["Demo-Instance"], "request %d", i)
	}
}

func TestHealthIsUnlimited(t *testing.T) {
	c := start(t, 1).client(t)
	for range 100 {
		a := c.do("GET", "/healthz", "")
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Empty(t, a.Header.Get("RateLimit"))
		require.Empty(t, a.Header.Get(middleware.TokenHeader))
	}
}

func TestFormOfAnotherSiteIsRefusedUncounted(t *testing.T) {
	c := start(t, 1).client(t)
	for range 10 {
		a := c.contact("Sec-Fetch-Site: cross-site")
		require.Equal(t, http.StatusForbidden, a.StatusCode)
		require.Empty(t, a.Header.Get(middleware.TokenHeader))
	}
	require.Equal(t, 5, admitted(t, 6, func() answer { return c.contact() }))
}
