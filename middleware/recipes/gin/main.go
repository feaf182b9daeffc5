// SPDX-License-Identifier: Apache-2.0

// Command gin serves a form that gin routes, limited by package tallygin. The documentation
// prints parts of it, in docs/recipes.md.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallygin"
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
	router := gin.New()
	router.Use(gin.Logger(), gin.Recovery())
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "not limited") })
	limited := router.Group("/", tallygin.Handler(limit))
	limited.GET("/contact", func(c *gin.Context) { c.String(http.StatusOK, "the form") })
	limited.POST("/contact", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"accepted": true}) })
	return router
}
