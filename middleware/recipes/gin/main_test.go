// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

func TestRoutes(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter = io.Discard
	loopback.RequireRoutes(t, loopback.Serve(t, routes(loopback.New(t, loopback.Config("contact", 2)))))
}
