// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/proof/kit"
)

func TestServer(t *testing.T) {
	client := grpc_health_v1.NewHealthClient(serve(t, 2))
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.Equal(t, want, status.Code(err))
	}
}

// A client that brings its token has one quota on two servers, and hears when to come back. One that brings
// none has a quota on each.
func TestClientBringsItsToken(t *testing.T) {
	var tokens carrier
	for _, test := range []struct {
		name     string
		options  []grpc.DialOption
		admitted int
	}{
		{"with the carrier", []grpc.DialOption{grpc.WithUnaryInterceptor(tokens.unary)}, 3},
		{"without", nil, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			servers := []*grpc.ClientConn{serve(t, 3, test.options...), serve(t, 3, test.options...)}
			for i := range 8 {
				_, err := grpc_health_v1.NewHealthClient(servers[i%2]).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				if i < test.admitted {
					require.NoError(t, err, i)
					continue
				}
				refused := status.Convert(err)
				require.Equal(t, codes.ResourceExhausted, refused.Code(), i)
				require.Len(t, refused.Details(), 1)
				require.IsType(t, (*errdetails.RetryInfo)(nil), refused.Details()[0])
				require.Positive(t, refused.Details()[0].(*errdetails.RetryInfo).RetryDelay.AsDuration())
			}
		})
	}
}

// serve serves a policy of quota calls a minute until the test ends, and returns a connection to it.
func serve(t *testing.T, quota int64, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	s := server(loopback.New(t, loopback.Config("calls", quota)))
	listener := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() { s.Stop(); require.NoError(t, <-done) })
	conn := kit.Must(grpc.NewClient(listener.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
