// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

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
	var clients sync.WaitGroup
	for range 6 {
		clients.Go(func() {
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
	}
	clients.Wait()
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
