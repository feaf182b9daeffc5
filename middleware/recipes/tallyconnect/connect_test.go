// SPDX-License-Identifier: Apache-2.0

package tallyconnect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/recipes/tallyconnect"
	"github.com/tallystick/tallystick/proof/kit"
)

const greet, count = "/acme.Greeter/Greet", "/acme.Greeter/Count"

type (
	request  = connect.Request[wrapperspb.StringValue]
	response = connect.Response[wrapperspb.StringValue]
)

// refusing is a policy of quota calls, whose refusals clients understand.
func refusing(quota int64) middleware.Config {
	cfg := loopback.Config("calls", quota)
	cfg.RefusalHandler = tallyconnect.Refused()
	return cfg
}

// dial serves a call and a stream, over HTTP/2 as gRPC demands, and returns a client of one of them.
func dial(t *testing.T, cfg middleware.Config, procedure string, opts ...connect.ClientOption) *connect.Client[wrapperspb.StringValue, wrapperspb.StringValue] {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(ctx context.Context, _ *request) (*response, error) {
		d, ok := middleware.FromContext(ctx)
		require.True(t, ok)
		return connect.NewResponse(wrapperspb.String(string(d.Reason))), nil
	}))
	mux.Handle(count, connect.NewServerStreamHandler(count, func(_ context.Context, _ *request, s *connect.ServerStream[wrapperspb.StringValue]) error {
		for _, word := range []string{"one", "two"} {
			if err := s.Send(wrapperspb.String(word)); err != nil {
				return err
			}
		}
		return nil
	}))
	server := httptest.NewUnstartedServer(loopback.New(t, cfg).Handler(mux))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](server.Client(), server.URL+procedure, opts...)
}

var protocols = map[string][]connect.ClientOption{
	"Connect":  nil,
	"gRPC":     {connect.WithGRPC()},
	"gRPC-Web": {connect.WithGRPCWeb()},
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	var refused *connect.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, connect.CodeResourceExhausted, refused.Code())
	require.NotEmpty(t, refused.Meta().Get("Retry-After"))
	require.Len(t, refused.Details(), 1)
	detail := kit.Must(refused.Details()[0].Value())(t)
	require.GreaterOrEqual(t, detail.(*errdetails.RetryInfo).RetryDelay.AsDuration(), time.Minute)
}

func TestUnary(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			client := dial(t, refusing(2), greet, opts...)
			first, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("ann")))
			require.NoError(t, err)
			require.Equal(t, string(middleware.WithinLimits), first.Msg.Value)
			require.Equal(t, `"calls";r=1;t=60`, first.Header().Get("RateLimit"))
			again := connect.NewRequest(wrapperspb.String("ann"))
			again.Header().Set(middleware.TokenHeader, first.Header().Get(middleware.TokenHeader))
			second := kit.Must(client.CallUnary(t.Context(), again))(t)
			require.Equal(t, `"calls";r=0;t=60`, second.Header().Get("RateLimit"))
			_, err = client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("ann")))
			requireRefused(t, err)
		})
	}
}

func TestStreams(t *testing.T) {
	for name, opts := range protocols {
		t.Run(name, func(t *testing.T) {
			client := dial(t, refusing(1), count, opts...)
			stream := kit.Must(client.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String(""))))(t)
			for _, word := range []string{"one", "two"} {
				require.True(t, stream.Receive(), "%v", stream.Err())
				require.Equal(t, word, stream.Msg().Value)
			}
			require.False(t, stream.Receive())
			require.NoError(t, stream.Err())
			require.Equal(t, `"calls";r=0;t=60`, stream.ResponseHeader().Get("RateLimit"))
			require.NoError(t, stream.Close())

			refused, err := client.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
			if err == nil {
				require.False(t, refused.Receive())
				err = refused.Err()
				require.NoError(t, refused.Close())
			}
			requireRefused(t, err)
		})
	}
}

// The trap: by the built-in refusal a gRPC client does not hear what it is.
func TestWithoutIt(t *testing.T) {
	client := dial(t, loopback.Config("calls", 1), greet, connect.WithGRPC())
	_, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
	require.NoError(t, err)
	_, err = client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
	require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "which clients retry at once")
}

// What speaks none of the protocols is answered too.
func TestOthers(t *testing.T) {
	url := loopback.Serve(t, loopback.New(t, refusing(1)).Handler(http.NotFoundHandler()))
	require.Equal(t, http.StatusNotFound, loopback.Send(t, http.MethodPost, url, "", "Content-Type", "text/plain").Status)
	a := loopback.Send(t, http.MethodPost, url, "", "Content-Type", "text/plain")
	require.Equal(t, http.StatusTooManyRequests, a.Status)
	require.Equal(t, "refused: over-limit\n", a.Body)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
}
