// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What the instances have apart.

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
