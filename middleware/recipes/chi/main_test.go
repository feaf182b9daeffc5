// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

func TestRoutes(t *testing.T) {
	cfg := loopback.Config("site", 7)
	cfg.Cost = config().Cost
	url := loopback.Serve(t, routes(loopback.New(t, cfg)))
	loopback.RequireFields(t, loopback.Send(t, http.MethodPost, url+"/contact", ""), `"site";r=6;t=60`)
	report := loopback.Send(t, http.MethodGet, url+"/reports/7", "")
	loopback.RequireFields(t, report, `"site";r=1;t=60`)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodGet, url+"/reports/8", "").Status)
	require.Equal(t, http.StatusOK, loopback.Send(t, http.MethodPost, url+"/contact", "").Status)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodPost, url+"/contact", "").Status)
	made := loopback.Serve(t, routes(loopback.New(t, cfg)))
	loopback.RequireFields(t, loopback.Send(t, http.MethodPost, made+"/reports", ""), `"site";r=2;t=60`)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodPost, made+"/reports", "").Status)
	free := loopback.Send(t, http.MethodGet, url, "")
	require.Equal(t, "not limited", free.Body)
	require.Empty(t, free.Left())
}

// With r.Use the cost is told before there is a route: the report costs 1, and what is not there 1 too.
func TestUseRunsBeforeTheRouteIsKnown(t *testing.T) {
	cfg := loopback.Config("site", 7)
	cfg.Cost = config().Cost
	r := chi.NewRouter()
	r.Use(loopback.New(t, cfg).Handler)
	r.Get("/reports/{id}", say("a report"))
	url := loopback.Serve(t, r)
	require.Equal(t, `"site";r=6;t=60`, loopback.Send(t, http.MethodGet, url+"/reports/7", "").Left())
	nothing := loopback.Send(t, http.MethodGet, url+"/nothing", "")
	require.Equal(t, http.StatusNotFound, nothing.Status)
	require.Equal(t, `"site";r=5;t=60`, nothing.Left())
}

// A route with another policy has a quota of its own; the routes of one policy share theirs.
func TestTwoPoliciesHaveAQuotaEach(t *testing.T) {
	contact, site := loopback.New(t, loopback.Config("contact", 1)), loopback.New(t, loopback.Config("site", 2))
	r := chi.NewRouter()
	r.With(contact.Handler).Post("/contact", say("Thank you."))
	r.With(site.Handler).Get("/one", say("one"))
	r.With(site.Handler).Get("/two", say("two"))
	url := loopback.Serve(t, r)
	for _, request := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPost, "/contact", http.StatusOK},
		{http.MethodPost, "/contact", http.StatusTooManyRequests},
		{http.MethodGet, "/one", http.StatusOK},
		{http.MethodGet, "/two", http.StatusOK},
		{http.MethodGet, "/one", http.StatusTooManyRequests},
		{http.MethodGet, "/two", http.StatusTooManyRequests},
	} {
		require.Equal(t, request.status, loopback.Send(t, request.method, url+request.path, "").Status, request.path)
	}
}
