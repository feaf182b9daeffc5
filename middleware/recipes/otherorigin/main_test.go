// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rs/cors"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

const page = "https://app.example"

func TestAPIOfAnotherOrigin(t *testing.T) {
	cfg := loopback.Config("api", 2)
	cfg.TokenTransport = middleware.HeaderOnly
	url := loopback.Serve(t, api(loopback.New(t, cfg))) + "/quote"
	for range 3 { // not counted
		pre := loopback.Send(t, http.MethodOptions, url, "", "Origin", page,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "tallystick-proof,tallystick-token")
		require.Equal(t, http.StatusNoContent, pre.Status)
		require.Equal(t, page, pre.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "tallystick-proof,tallystick-token", pre.Header.Get("Access-Control-Allow-Headers"))
	}
	token := "none"
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		a := loopback.Send(t, http.MethodPost, url, "", "Origin", page, middleware.TokenHeader, token)
		require.Equal(t, want, a.Status)
		require.Equal(t, page, a.Header.Get("Access-Control-Allow-Origin"))
		exposed := strings.ToLower(a.Header.Get("Access-Control-Expose-Headers"))
		for _, name := range []string{"ratelimit", "retry-after", "tallystick-token", "tallystick-challenge"} {
			require.Contains(t, strings.Split(exposed, ", "), name)
		}
		if a.Token() != "" {
			token = a.Token()
		}
	}
}

// The trap: inside of the limiter, a script that is refused is told nothing.
func TestCORSInside(t *testing.T) {
	inside := cors.New(cors.Options{AllowedOrigins: []string{page}}).Handler(http.HandlerFunc(quote))
	url := loopback.Serve(t, loopback.New(t, loopback.Config("api", 1)).Handler(inside))
	require.Equal(t, page, loopback.Send(t, http.MethodGet, url, "", "Origin", page).Header.Get("Access-Control-Allow-Origin"))
	refused := loopback.Send(t, http.MethodGet, url, "", "Origin", page)
	require.Equal(t, http.StatusTooManyRequests, refused.Status)
	require.Empty(t, refused.Header.Get("Access-Control-Allow-Origin"))
}
