// SPDX-License-Identifier: Apache-2.0

package tallymcp_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/recipes/tallymcp"
	"github.com/tallystick/tallystick/proof/kit"
)

// server returns an MCP server with two tools.
func server(receive mcp.Middleware) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "v1"}, nil)
	for _, tool := range []string{"search", "report"} {
		mcp.AddTool(s, &mcp.Tool{Name: tool}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "found"}}}, nil, nil
		})
	}
	s.AddReceivingMiddleware(receive)
	return s
}

// serve serves it over loopback, as sessions or without.
func serve(t *testing.T, identity middleware.IdentityFunc, quota int64, stateless bool) string {
	t.Helper()
	tools := tallymcp.New(loopback.New(t, loopback.Config("tools", quota)), identity, map[string]int64{"search": 1, "report": 2})
	s := server(tools.Receive)
	return loopback.Serve(t, tools.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})))
}

// as sends a bearer token, and a ticket that it has made up.
type as string

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if a != "" {
		r.Header.Set("Authorization", "Bearer "+string(a))
	}
	r.Header.Set("Tallystick-Caller", "made up")
	return http.DefaultTransport.RoundTrip(r)
}

// connect initializes a session.
func connect(t *testing.T, url, name string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "model", Version: "v1"}, nil)
	session := kit.Must(client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as(name)}}, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool, and returns what the model reads.
func call(t *testing.T, session *mcp.ClientSession, tool string) (text string, refused bool) {
	t.Helper()
	result := kit.Must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool}))(t)
	require.Len(t, result.Content, 1)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func requireRefused(t *testing.T, session *mcp.ClientSession, tool string) {
	t.Helper()
	text, refused := call(t, session, tool)
	require.True(t, refused)
	require.Regexp(t, `^Too many calls of this tool\. Try again in 6\d seconds\.$`, text)
}

func requireFound(t *testing.T, session *mcp.ClientSession, tool string) {
	t.Helper()
	text, refused := call(t, session, tool)
	require.False(t, refused, text)
	require.Equal(t, "found", text)
}

// bearers returns the owner of the bearer token, or the address if there is none.
func bearers(r *http.Request) (middleware.Identity, error) {
	name, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return middleware.PeerAddress(r)
	}
	if name == "stranger" {
		return middleware.Identity{}, &middleware.Denial{Status: http.StatusUnauthorized}
	}
	return middleware.Principal(name), nil
}

func TestEachToolOfEachCaller(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		url := serve(t, bearers, 2, stateless)
		for _, name := range []string{"ann", "bob", ""} {
			session := connect(t, url, name)
			requireFound(t, session, "search")
			requireFound(t, session, "search")
			requireRefused(t, session, "search")
			requireFound(t, session, "report") // at a cost of 2
			requireRefused(t, session, "report")
			tools, err := session.ListTools(t.Context(), nil)
			require.NoError(t, err, "anything else is not limited")
			require.Len(t, tools.Tools, 2)
		}
	}
}

// Initialize, call, drop the session, and again: a new session, the same tally.
func TestANewSessionIsNoNewCaller(t *testing.T) {
	url := serve(t, middleware.PeerAddress, 3, false)
	for range 3 {
		session := connect(t, url, "")
		requireFound(t, session, "search")
		require.NoError(t, session.Close())
	}
	for range 3 {
		session := connect(t, url, "")
		requireRefused(t, session, "search")
		require.NoError(t, session.Close())
	}
}

// A session has no owner: each call is its sender's, whichever client has initialized it.
func TestEachCallIsItsSenders(t *testing.T) {
	url := serve(t, bearers, 1, false)
	var sender atomic.Value
	sender.Store(as("ann"))
	client := mcp.NewClient(&mcp.Implementation{Name: "model", Version: "v1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: latest{&sender}}}, nil)
	require.NoError(t, err)
	defer session.Close()
	requireFound(t, session, "search")
	requireRefused(t, session, "search")
	sender.Store(as("bob"))
	requireFound(t, session, "search")
	requireRefused(t, session, "search")
}

// latest sends as the sender that was stored last.
type latest struct{ sender *atomic.Value }

func (l latest) RoundTrip(r *http.Request) (*http.Response, error) {
	return l.sender.Load().(as).RoundTrip(r)
}

// Names that a client makes up share one tally: it is no way to many of them.
func TestToolsThatAreMadeUp(t *testing.T) {
	session := connect(t, serve(t, middleware.PeerAddress, 2, false), "")
	for _, name := range []string{"a", "b"} {
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		require.ErrorContains(t, err, "unknown tool")
	}
	requireRefused(t, session, "c")
	requireFound(t, session, "search")
}

func TestStrangers(t *testing.T) {
	url := serve(t, bearers, 2, false)
	a := loopback.Send(t, http.MethodPost, url, "{}", "Authorization", "Bearer stranger")
	require.Equal(t, http.StatusUnauthorized, a.Status)
	require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
	nobody := func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, nil }
	require.Equal(t, http.StatusForbidden, loopback.Send(t, http.MethodPost, serve(t, nobody, 2, false), "{}").Status)
}

// A program that forgets Handler refuses every call, and does not believe the client's field.
func TestWithoutHandler(t *testing.T) {
	tools := tallymcp.New(loopback.New(t, loopback.Config("tools", 2)), middleware.PeerAddress, nil)
	s := server(tools.Receive)
	url := loopback.Serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	text, refused := call(t, connect(t, url, ""), "search")
	require.True(t, refused)
	require.Equal(t, "It cannot be told who is calling.", text)
}

// Over stdio there is one caller, which has started the server.
func TestWithoutHTTP(t *testing.T) {
	tools := tallymcp.New(loopback.New(t, loopback.Config("tools", 1)), middleware.PeerAddress, nil)
	here, there := mcp.NewInMemoryTransports()
	running := kit.Must(server(tools.Receive).Connect(t.Context(), there, nil))(t)
	defer running.Close()
	session := kit.Must(mcp.NewClient(&mcp.Implementation{Name: "model", Version: "v1"}, nil).Connect(t.Context(), here, nil))(t)
	defer session.Close()
	for range 3 {
		requireFound(t, session, "search")
	}
}
