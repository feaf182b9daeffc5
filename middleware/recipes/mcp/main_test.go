// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

func TestEndpoint(t *testing.T) {
	url := loopback.Serve(t, endpoint(loopback.New(t, loopback.Config("tools", 2))))
	session, err := mcp.NewClient(&mcp.Implementation{Name: "model", Version: "v1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	require.NoError(t, err)
	defer session.Close()
	for _, refused := range []bool{false, false, true} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "search", Arguments: map[string]any{"title": "Tally sticks"}})
		require.NoError(t, err)
		require.Equal(t, refused, result.IsError)
	}
}
