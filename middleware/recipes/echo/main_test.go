// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

func TestRoutes(t *testing.T) {
	loopback.RequireRoutes(t, loopback.Serve(t, routes(loopback.New(t, loopback.Config("contact", 2)))))
}

func TestEveryAnswerHasTheFields(t *testing.T) {
	for _, a := range []struct {
		name   string
		handle echo.HandlerFunc
		status int
	}{
		{"String", func(c echo.Context) error { return c.String(http.StatusOK, "hello") }, http.StatusOK},
		{"JSON", func(c echo.Context) error { return c.JSON(http.StatusCreated, 1) }, http.StatusCreated},
		{"NoContent", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) }, http.StatusNoContent},
		{"Redirect", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/") }, http.StatusSeeOther},
		{"HTTPError", func(echo.Context) error { return echo.NewHTTPError(http.StatusTeapot) }, http.StatusTeapot},
		{"an error", func(echo.Context) error { return errors.New("down") }, http.StatusInternalServerError},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(method+" "+a.name, func(t *testing.T) {
				e, ran := echo.New(), 0
				e.Add(method, "/", func(c echo.Context) error {
					ran++
					_, ok := middleware.FromContext(c.Request().Context())
					require.True(t, ok)
					return a.handle(c)
				}, echo.WrapMiddleware(loopback.New(t, loopback.Config("echo", 1)).Handler))
				url := loopback.Serve(t, e)
				first := loopback.Send(t, method, url, "")
				require.Equal(t, a.status, first.Status)
				loopback.RequireFields(t, first, `"echo";r=0;t=60`)
				require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, method, url, "").Status)
				require.Equal(t, 1, ran)
			})
		}
	}
}

func TestStreams(t *testing.T) {
	seen := make(chan struct{})
	e := echo.New()
	e.GET("/", func(c echo.Context) error {
		for range 2 {
			if _, err := c.Response().Write([]byte("data: 1\n")); err != nil {
				return err
			}
			c.Response().Flush()
			select {
			case <-seen:
			case <-c.Request().Context().Done(): // the test has failed
			}
		}
		return nil
	}, echo.WrapMiddleware(loopback.New(t, loopback.Config("echo", 5)).Handler))
	resp, err := http.Get(loopback.Serve(t, e))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, `"echo";r=4;t=60`, resp.Header.Get("RateLimit"))
	lines := bufio.NewScanner(resp.Body)
	for range 2 {
		require.True(t, lines.Scan())
		require.Equal(t, "data: 1", lines.Text())
		seen <- struct{}{}
	}
	require.False(t, lines.Scan())
}
