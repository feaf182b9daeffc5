// SPDX-License-Identifier: Apache-2.0

// Command mcp is an MCP server whose tools are limited for each caller. The documentation prints parts of it, in
// docs/recipes.md.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallymcp"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "tools",
		Limits:  []middleware.Limit{{Quota: 30, Window: time.Minute}, {Quota: 500, Window: 24 * time.Hour}},
		Secrets: [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", endpoint(limit)))
}

func endpoint(limit *middleware.Middleware) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "search", Description: "finds a book"}, search)

	tools := tallymcp.New(limit, middleware.PeerAddress, map[string]int64{"search": 1})
	server.AddReceivingMiddleware(tools.Receive)
	return tools.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}

type query struct {
	Title string `json:"title"`
}

func search(_ context.Context, _ *mcp.CallToolRequest, q query) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "There is no book called " + q.Title}}}, nil, nil
}
