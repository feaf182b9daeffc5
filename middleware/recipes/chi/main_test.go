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
