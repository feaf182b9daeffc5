// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

// What each client sends with a form, and what it can use when it is refused.
func TestRefusals(t *testing.T) {
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, row := range []struct {
		name   string
		fields []string
		media  string
		body   string // a pattern
		got    func(testing.TB, loopback.Answer, string)
	}{
		// htmx.js of 4.0.1 sends these; version 2.0 leaves Accept to XMLHttpRequest, which says */*.
		{"htmx 4", []string{"HX-Request", "true", "Accept", "text/html"}, "text/html; charset=utf-8", `^<p role="alert">Too many messages. Try again in 6\d seconds.</p>$`, loopback.RequireFields},
		{"htmx 2, told what to accept", []string{"HX-Request", "true", "Accept", "text/html"}, "text/html; charset=utf-8", `^<p role="alert">`, loopback.RequireFields},
		{"htmx 2", []string{"HX-Request", "true", "Accept", "*/*"}, "application/problem+json", `^\{"type":`, loopback.RequireFields},
		{"fetch", []string{"Accept", "*/*", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, "application/problem+json", `"challenge":"`, loopback.RequireFields},
		{"a plain form", []string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"},
			"text/html; charset=utf-8", `(?s)^<!doctype html>.*value="hello"`, loopback.RequireNavigated},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := loopback.Config("contact", 1)
			cfg.Challenge = &middleware.Challenge{Path: "/tally/contact/"}
			cfg.PageHandler = http.HandlerFunc(refused)
			url := loopback.Serve(t, site(loopback.New(t, cfg))) + "/contact"
			fields := append(row.fields, form...)
			first := loopback.Send(t, http.MethodPost, url, "message=hello", fields...)
			require.Equal(t, "<p>Thank you.</p>", first.Body)
			row.got(t, first, `"contact";r=0;t=60`)
			a := loopback.Send(t, http.MethodPost, url, "message=hello", fields...)
			require.Equal(t, http.StatusTooManyRequests, a.Status)
			require.Equal(t, row.media, a.Header.Get("Content-Type"))
			require.Regexp(t, row.body, a.Body)
			require.NotEmpty(t, a.Header.Get("Retry-After"))
			require.NotEmpty(t, a.Header.Get(middleware.ChallengeHeader), "a way on, for the element and for tallyFetch")
		})
	}
}

// The page names what the policy serves.
func TestPage(t *testing.T) {
	cfg := loopback.Config("contact", 1)
	cfg.Challenge = &middleware.Challenge{Path: "/tally/contact/"}
	limit := loopback.New(t, cfg)
	url := loopback.Serve(t, site(limit))
	a := loopback.Send(t, http.MethodGet, url, "")
	require.Contains(t, a.Body, `<tally-check endpoint="/tally/contact/">`)
	for _, file := range []string{limit.ScriptURL(), limit.StyleURL()} {
		require.Contains(t, a.Body, `"`+file+`"`)
		require.Equal(t, http.StatusOK, loopback.Send(t, http.MethodGet, url+file, "").Status)
	}
}
