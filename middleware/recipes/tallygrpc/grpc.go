// SPDX-License-Identifier: Apache-2.0

// Package tallygrpc limits a gRPC server: unary calls, streams, and the messages of streams. It
// decides by [middleware.Middleware.Decide], so that calls and HTTP requests can share a policy.
//
//	calls := tallygrpc.Interceptor{Limit: limit}
//	server := grpc.NewServer(grpc.UnaryInterceptor(calls.Unary), grpc.StreamInterceptor(calls.Stream))
//
// Tokens travel as metadata: the client sends tallystick-token, and gets the newest by the header
// of an answer, beside ratelimit and ratelimit-policy. A refusal is RESOURCE_EXHAUSTED with
// google.rpc.RetryInfo where waiting helps.
//
// What bites: a client that sends no token back is bounded by the memory of each instance, (N+C)·L. Most
// gRPC clients are like that, so identify callers by credentials and use Config.Exact where a
// count is worth money. Behind a proxy the peer is the proxy. Health checks are calls like others,
// unless Skip names them. Config.Identity, Cost and Skip are about HTTP, and not asked. An
// interceptor that authenticates goes before this one. Limits that count by outcome are told nothing here, and
// charge every call. A proof of work is no use to clients that do not solve challenges: leave Config.Challenge out.
//
// The package is one file: copy it, if the module's dependencies are too many.
package tallygrpc

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tallystick/tallystick/middleware"
)

// An Interceptor limits calls. Pass its methods to grpc.NewServer.
type Interceptor struct {
	// Limit decides. Required. It must have no Concurrency.
	Limit *middleware.Middleware

	// Identity names the caller. If it is zero or there is an error, the call is UNAUTHENTICATED,
	// or what a status error says. Default: [Peer].
	Identity func(ctx context.Context, method string) (middleware.Identity, error)

	// Cost prices a call by its full method, such as "/acme.Reports/Make", and a message if Messages is set.
	// Default: 1.
	Cost func(method string) int64

	// Skip passes a call on uncounted, such as health checks. Default: none.
	Skip func(method string) bool

	// Messages charges each message that a stream's client sends, in place of the stream. The message
	// that is refused ends the stream. Default: a stream is charged when it is opened, however long.
	Messages bool
}

// Peer identifies by the address of the connection's other end.
func Peer(ctx context.Context, _ string) (middleware.Identity, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return middleware.Identity{}, errors.New("the call has no peer")
	}
	addr, err := netip.ParseAddrPort(p.Addr.String())
	return middleware.Address(addr.Addr()), err
}

// Unary implements grpc.UnaryServerInterceptor.
func (i Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if i.skips(info.FullMethod) {
		return next(ctx, req)
	}
	md, err := i.decide(ctx, info.FullMethod)
	if header := grpc.SetHeader(ctx, md); err == nil {
		err = header
	}
	if err != nil {
		return nil, err
	}
	return next(ctx, req)
}

// Stream implements grpc.StreamServerInterceptor.
func (i Interceptor) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if i.skips(info.FullMethod) {
		return next(srv, stream)
	}
	if i.Messages {
		counted := &counted{ServerStream: stream, by: i, method: info.FullMethod}
		err := next(srv, counted)
		md, refused := counted.last()
		stream.SetTrailer(md)
		if refused != nil { // whatever the handler has made of it
			return refused
		}
		return err
	}
	md, err := i.decide(stream.Context(), info.FullMethod)
	if header := stream.SetHeader(md); err == nil {
		err = header
	}
	if err != nil {
		return err
	}
	return next(srv, stream)
}

// A counted stream charges what it receives. The header has gone by then: the token and
// the rest of the last message go out with the trailer. Not of each: gRPC joins all that a
// trailer is set to.
type counted struct {
	grpc.ServerStream
	by     Interceptor
	method string

	mu      sync.Mutex // a handler may return while another goroutine of its own receives
	md      metadata.MD
	refused error
}

// RecvMsg is called by one goroutine at a time, as gRPC demands.
func (c *counted) RecvMsg(m any) error {
	if _, refused := c.last(); refused != nil {
		return refused
	}
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	md, err := c.by.decide(c.Context(), c.method)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.md, c.refused = md, err
	return err
}

// last returns what was decided about the last message.
func (c *counted) last() (metadata.MD, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.md, c.refused
}

func (i Interceptor) skips(method string) bool { return i.Skip != nil && i.Skip(method) }

// decide returns what goes back to the client, and the error of a call that is refused.
func (i Interceptor) decide(ctx context.Context, method string) (metadata.MD, error) {
	who := i.Identity
	if who == nil {
		who = Peer
	}
	id, err := who(ctx, method)
	if _, says := status.FromError(err); err != nil && says {
		return nil, err
	}
	if err != nil || id.IsZero() {
		return nil, status.Error(codes.Unauthenticated, "it cannot be told who is calling")
	}
	ask := middleware.Ask{Identity: id, Tokens: metadata.ValueFromIncomingContext(ctx, middleware.TokenHeader)}
	if i.Cost != nil {
		ask.Cost = i.Cost(method)
	}
	answer, err := i.Limit.Decide(ctx, ask)
	if ctx.Err() != nil { // the client has hung up, or waits no longer
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	md := metadata.MD{}
	for name, value := range answer.Fields() {
		md.Append(strings.ToLower(name), value)
	}
	return md, refusal(answer.Decision)
}

// refusal returns the status of a refused call, or nil.
func refusal(d middleware.Decision) error {
	if d.Allowed {
		return nil
	}
	code := codes.ResourceExhausted
	switch d.Status {
	case http.StatusForbidden: // a retry does not help
		code = codes.FailedPrecondition
	case http.StatusServiceUnavailable: // the exact counter
		code = codes.Unavailable
	}
	s := status.New(code, "refused: "+string(d.Reason))
	if d.RetryAfter > 0 {
		if more, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter.Round(time.Second))}); err == nil {
			s = more
		}
	}
	return s.Err()
}
