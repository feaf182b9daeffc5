// SPDX-License-Identifier: Apache-2.0

// Package tallymcp limits the tools of an MCP server: each caller has a tally for each tool.
//
//	tools := tallymcp.New(limit, middleware.PeerAddress, map[string]int64{"search": 1, "report": 5})
//	server.AddReceivingMiddleware(tools.Receive)
//	http.Handle("/mcp", tools.Handler(mcp.NewStreamableHTTPHandler(…)))
//
// The caller is the sender of the HTTP request: an address, or what the identity function makes of
// the credentials. It is not the session. Sessions are free: a client that loops initialize, call,
// drop gets a new one each time, and the same tally. Every other method, such as initialize and
// tools/list, is not limited by this: put a policy of its own around the endpoint if that matters.
//
// What bites: model clients send no token back, so the memory of each instance counts, (N+C)·L;
// use Config.Exact where a call costs money. A refused call is a result with isError, which the
// model reads, and no protocol error, at which many clients give up. All callers behind an address
// share its tallies: the servers of a hosted assistant are a few addresses, so identify by
// credentials where there are any. A server over stdio has one caller, and its calls are not limited.
//
// The package is one file: copy it, if the module's dependencies are too many.
package tallymcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tallystick/tallystick/middleware"
)

// ticketField tells the MCP server the HTTP request of a message. For a message of a session the SDK hands
// on its request's header, and no context.
const ticketField = "Tallystick-Caller"

// A Limiter limits the tools of a server. Make it with [New].
type Limiter struct {
	limit    *middleware.Middleware
	identity middleware.IdentityFunc
	costs    map[string]int64
	callers  sync.Map // of the requests under way: ticket to middleware.Identity
}

// New returns a limiter by a policy, which must have no Concurrency. identity names the sender of a
// request; Config.Identity is not asked. costs are the tools of the server, and what a call costs. A
// tool that is not among them has no tally of its own: names that clients make up would be as many
// quotas. All of these share one tally of their caller, at a cost of 1. A tool that costs 0 is not
// limited.
func New(limit *middleware.Middleware, identity middleware.IdentityFunc, costs map[string]int64) *Limiter {
	return &Limiter{limit: limit, identity: identity, costs: maps.Clone(costs)}
}

// Handler wraps the HTTP handler of the MCP server, and sees its senders.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := l.identity(r)
		if denial, ok := errors.AsType[*middleware.Denial](err); ok && denial.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", cmp.Or(denial.WWWAuthenticate, "Bearer"))
			http.Error(w, "The credentials are not known.", http.StatusUnauthorized)
			return
		}
		if err != nil || id.IsZero() {
			http.Error(w, "It cannot be told who is calling.", http.StatusForbidden)
			return
		}
		ticket := rand.Text()
		l.callers.Store(ticket, id)
		defer l.callers.Delete(ticket)
		r = r.Clone(r.Context())
		r.Header.Set(ticketField, ticket) // whatever the client has sent: it knows no ticket
		next.ServeHTTP(w, r)
	})
}

// Receive is a receiving middleware of the MCP server.
func (l *Limiter) Receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		extra := call.GetExtra()
		if extra == nil || extra.Header == nil { // over stdio
			return next(ctx, method, req)
		}
		id, known := l.callers.Load(extra.Header.Get(ticketField))
		if !known { // Handler is not mounted, or the client has gone
			return refused("It cannot be told who is calling."), nil
		}
		caller, cost := id.(middleware.Identity), int64(1)
		if c, listed := l.costs[call.Params.Name]; listed {
			caller, cost = caller.For(call.Params.Name), c
		}
		if cost == 0 { // in an Ask it is 1
			return next(ctx, method, req)
		}
		answer, err := l.limit.Decide(ctx, middleware.Ask{Identity: caller, Cost: cost})
		switch {
		case err != nil:
			return nil, err
		case answer.Allowed:
			return next(ctx, method, req)
		case answer.RetryAfter > 0:
			return refused(fmt.Sprintf("Too many calls of this tool. Try again in %.0f seconds.", answer.RetryAfter.Seconds())), nil
		}
		return refused("This call is not permitted: " + string(answer.Reason)), nil
	}
}

// refused is a result for the model to read.
func refused(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
