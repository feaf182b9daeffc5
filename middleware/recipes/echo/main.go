// SPDX-License-Identifier: Apache-2.0

// Command echo serves a form that Echo routes. echo.WrapMiddleware is all the adapter that it
// takes: Echo gives its response the limiter's writer, and takes the decision's context over. The
// documentation prints parts of it, in docs/recipes.md.
//
// What bites: Echo turns the errors that handlers return into responses after all middleware. Where
// limits count by outcome, call c.Error(err) inside of the limiter, or the outcome is unknown and charged.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tallystick/tallystick/middleware"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "contact",
		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets: [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", routes(limit)))
}

func routes(limit *middleware.Middleware) http.Handler {
	e := echo.New()
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "not limited") })
	limited := e.Group("/contact", echo.WrapMiddleware(limit.Handler))
	limited.GET("", func(c echo.Context) error { return c.String(http.StatusOK, "the form") })
	limited.POST("", func(c echo.Context) error { return c.JSON(http.StatusOK, echo.Map{"accepted": true}) })
	return e
}
