// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	polite "github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/proof/kit"
)

// Clients that prove work by themselves, and what the instances have apart.

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

func TestDroppingTheTokenGainsOneQuotaPerInstance(t *testing.T) {
	for instances, most := range map[int]int{1: 5, 3: 15} {
		c := start(t, instances).client(t)
		require.Equal(t, most, admitted(t, 60, func() answer { return c.contact() }))
	}
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

func TestFormOfAnotherSiteIsRefusedUncounted(t *testing.T) {
	c := start(t, 1).client(t)
	for range 10 {
		a := c.contact("Sec-Fetch-Site: cross-site")
		require.Equal(t, http.StatusForbidden, a.StatusCode)
		require.Empty(t, a.Header.Get(middleware.TokenHeader))
	}
	require.Equal(t, 5, admitted(t, 6, func() answer { return c.contact() }))
}
