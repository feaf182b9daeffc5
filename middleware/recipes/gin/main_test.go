// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

func TestRoutes(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter = io.Discard
	url := loopback.Serve(t, routes(loopback.New(t, loopback.Config("contact", 2))))
	loopback.RequireFields(t, loopback.Send(t, http.MethodGet, url+"/contact", ""), `"contact";r=1;t=60`)
	loopback.RequireFields(t, loopback.Send(t, http.MethodPost, url+"/contact", ""), `"contact";r=0;t=60`)
	require.Equal(t, http.StatusTooManyRequests, loopback.Send(t, http.MethodPost, url+"/contact", "").Status)
	free := loopback.Send(t, http.MethodGet, url, "")
	require.Equal(t, http.StatusOK, free.Status)
	require.Empty(t, free.Left())
}
