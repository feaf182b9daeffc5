// SPDX-License-Identifier: Apache-2.0

package tallygrpc_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/recipes/tallygrpc"
	"github.com/tallystick/tallystick/proof/kit"
)

const (
	check  = "/grpc.health.v1.Health/Check"
	talk   = "/acme.Talk/Talk"
	tokens = "tallystick-token"
)

// echoes is a stream both ways, without generated code. It does not tell its errors.
var echoes = grpc.ServiceDesc{
	ServiceName: "acme.Talk",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for {
			var m wrapperspb.StringValue
			if s.RecvMsg(&m) != nil {
				return nil
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}}},
}

// serve serves health checks and echoes over loopback.
func serve(t *testing.T, calls tallygrpc.Interceptor) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(grpc.UnaryInterceptor(calls.Unary), grpc.StreamInterceptor(calls.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	server.RegisterService(&echoes, nil)
	listener := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-done) })
	conn := kit.Must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// unary makes a health check, and returns the fields of the answer.
func unary(ctx context.Context, conn *grpc.ClientConn) (md metadata.MD, err error) {
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&md))
	return md, err
}

// requireRefused checks the code, and that RetryInfo tells the wait.
func requireRefused(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	wait := details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration()
	require.GreaterOrEqual(t, wait, time.Minute)
	require.LessOrEqual(t, wait, time.Minute+6*time.Second)
}

func TestUnary(t *testing.T) {
	cfg := loopback.Config("calls", 2)
	conn := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, cfg)})
	md := kit.Must(unary(t.Context(), conn))(t)
	require.Equal(t, []string{`"calls";r=1;t=60`}, md["ratelimit"])
	require.Equal(t, []string{`"calls";q=2;w=60`}, md["ratelimit-policy"])
	require.Len(t, md[tokens], 1)
	md = kit.Must(unary(metadata.AppendToOutgoingContext(t.Context(), tokens, md[tokens][0]), conn))(t)
	require.Equal(t, []string{`"calls";r=0;t=60`}, md["ratelimit"])
	spent := md[tokens][0]
	refusal, err := unary(t.Context(), conn)
	requireRefused(t, err)
	require.Len(t, refusal["retry-after"], 1)

	// Another instance, which has seen no client: the token says it.
	other := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, cfg)})
	_, err = unary(metadata.AppendToOutgoingContext(t.Context(), tokens, spent), other)
	requireRefused(t, err)
	_, err = unary(t.Context(), other)
	require.NoError(t, err, "a client that drops the token has a quota on each instance")
}

// One policy, two ways in.
func TestCallsAndRequestsShareAPolicy(t *testing.T) {
	limit := loopback.New(t, loopback.Config("both", 2))
	conn := serve(t, tallygrpc.Interceptor{Limit: limit})
	answer, err := limit.Decide(t.Context(), middleware.Ask{Identity: middleware.Address(loopback.Here)})
	require.NoError(t, err)
	require.True(t, answer.Allowed)
	kit.Must(unary(t.Context(), conn))(t)
	_, err = unary(t.Context(), conn)
	requireRefused(t, err)
}

func TestWhoCallsAndWhatItCosts(t *testing.T) {
	byKey := func(ctx context.Context, _ string) (middleware.Identity, error) {
		switch key := metadata.ValueFromIncomingContext(ctx, "authorization"); {
		case len(key) == 0:
			return middleware.Identity{}, nil
		case key[0] == "wrong":
			return middleware.Identity{}, status.Error(codes.PermissionDenied, "no")
		default:
			return middleware.Principal(key[0]), nil
		}
	}
	conn := serve(t, tallygrpc.Interceptor{
		Limit:    loopback.New(t, loopback.Config("calls", 5)),
		Identity: byKey,
		Cost: func(method string) int64 {
			if method == check {
				return 5
			}
			return 1
		},
	})
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", name)
	}
	_, err := unary(t.Context(), conn)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	_, err = unary(as("wrong"), conn)
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	for _, name := range []string{"ann", "bob"} {
		kit.Must(unary(as(name), conn))(t)
		_, err = unary(as(name), conn)
		requireRefused(t, err)
	}
}

func TestSkip(t *testing.T) {
	conn := serve(t, tallygrpc.Interceptor{
		Limit: loopback.New(t, loopback.Config("calls", 1)),
		Skip:  func(method string) bool { return method == check },
	})
	for range 5 {
		md := kit.Must(unary(t.Context(), conn))(t)
		require.Empty(t, md["ratelimit"])
	}
}

// A call that costs more than the quota never passes: there is nothing to wait for.
func TestAboveTheQuota(t *testing.T) {
	conn := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, loopback.Config("calls", 1)), Cost: func(string) int64 { return 2 }})
	_, err := unary(t.Context(), conn)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Empty(t, status.Convert(err).Details())
}

// open opens a stream, and returns what sends a message and waits for its echo.
func open(t *testing.T, conn *grpc.ClientConn) (grpc.ClientStream, func() error) {
	t.Helper()
	stream := kit.Must(conn.NewStream(t.Context(), &echoes.Streams[0], talk))(t)
	return stream, func() error {
		if err := stream.SendMsg(wrapperspb.String("hello")); err != nil && err != io.EOF {
			return err
		}
		var m wrapperspb.StringValue
		return stream.RecvMsg(&m)
	}
}

func TestStreamsAreChargedWhenOpened(t *testing.T) {
	conn := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, loopback.Config("calls", 1))})
	stream, say := open(t, conn)
	for range 5 {
		require.NoError(t, say())
	}
	md := kit.Must(stream.Header())(t)
	require.Equal(t, []string{`"calls";r=0;t=60`}, md["ratelimit"])
	require.Len(t, md[tokens], 1)
	_, say = open(t, conn)
	requireRefused(t, say())
}

func TestMessagesAreCharged(t *testing.T) {
	conn := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, loopback.Config("calls", 3)), Messages: true})
	stream, say := open(t, conn)
	for range 3 {
		require.NoError(t, say())
	}
	requireRefused(t, say())
	require.Len(t, stream.Trailer()["retry-after"], 1)
	_, say = open(t, conn)
	requireRefused(t, say())
}

// However many messages a stream has, what goes out with its end is of the last one: gRPC keeps
// all that a trailer was ever set to, and clients refuse a long one.
func TestTrailerIsOfTheLastMessage(t *testing.T) {
	conn := serve(t, tallygrpc.Interceptor{Limit: loopback.New(t, loopback.Config("calls", 100)), Messages: true})
	stream := kit.Must(conn.NewStream(t.Context(), &echoes.Streams[0], talk))(t)
	for range 50 {
		require.NoError(t, stream.SendMsg(wrapperspb.String("hello")))
		require.NoError(t, stream.RecvMsg(new(wrapperspb.StringValue)))
	}
	require.NoError(t, stream.CloseSend())
	require.ErrorIs(t, stream.RecvMsg(new(wrapperspb.StringValue)), io.EOF)
	require.Len(t, stream.Trailer()[tokens], 1)
	require.Len(t, stream.Trailer()["ratelimit"], 1)
	require.Contains(t, stream.Trailer()["ratelimit"][0], "r=50;")
}
