// SPDX-License-Identifier: Apache-2.0

package tallymcp_test

import (
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallymcp"
)

// A search costs one call, and a picture twenty.
func ExampleNew() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "tools",
		Limits:  []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets: [][]byte{[]byte("an example is no place for secrets")},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "v1"}, nil)
	tools := tallymcp.New(limit, middleware.PeerAddress, map[string]int64{"search": 1, "picture": 20})
	server.AddReceivingMiddleware(tools.Receive)
	http.Handle("/mcp", tools.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)))
}
