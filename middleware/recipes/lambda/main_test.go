// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
)

type outcome struct {
	status  int
	headers http.Header
	cookies []string
	body    string
}

// shapes send an event of the client at addr, with the token, and tell the answer.
var shapes = map[string]func(t *testing.T, function any, addr, token string) outcome{
	"rest": func(t *testing.T, function any, addr, token string) outcome {
		a, err := function.(func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error))(t.Context(), events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodPost, Path: "/contact",
			MultiValueHeaders: map[string][]string{middleware.TokenHeader: {token}, "X-Forwarded-For": {addr}},
			RequestContext:    events.APIGatewayProxyRequestContext{Identity: events.APIGatewayRequestIdentity{SourceIP: addr}},
		})
		require.NoError(t, err)
		h := http.Header(a.MultiValueHeaders)
		return outcome{a.StatusCode, h, h["Set-Cookie"], a.Body}
	},
	"http": func(t *testing.T, function any, addr, token string) outcome {
		event := events.APIGatewayV2HTTPRequest{RawPath: "/contact", Headers: map[string]string{middleware.TokenHeader: token, "X-Forwarded-For": addr}}
		event.RequestContext.HTTP.Method, event.RequestContext.HTTP.SourceIP = http.MethodPost, addr
		a, err := function.(func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error))(t.Context(), event)
		require.NoError(t, err)
		h := http.Header{}
		for name, value := range a.Headers {
			h.Set(name, value)
		}
		return outcome{a.StatusCode, h, a.Cookies, a.Body}
	},
	"alb": func(t *testing.T, function any, addr, token string) outcome {
		a, err := function.(func(context.Context, events.ALBTargetGroupRequest) (events.ALBTargetGroupResponse, error))(t.Context(), events.ALBTargetGroupRequest{
			HTTPMethod: http.MethodPost, Path: "/contact",
			MultiValueHeaders: map[string][]string{middleware.TokenHeader: {token}, "x-forwarded-for": {addr}},
		})
		require.NoError(t, err)
		h := http.Header(a.MultiValueHeaders)
		return outcome{a.StatusCode, h, h["Set-Cookie"], a.Body}
	},
}

func TestEachShape(t *testing.T) {
	for kind, send := range shapes {
		t.Run(kind, func(t *testing.T) {
			cfg := loopback.Config("contact", 2)
			require.NoError(t, identify(&cfg, kind))
			fn := function(loopback.New(t, cfg).Handler(http.HandlerFunc(contact)), kind)
			token := ""
			for _, left := range []string{`"contact";r=1;t=60`, `"contact";r=0;t=60`} {
				a := send(t, fn, "192.0.2.1", token)
				require.Equal(t, http.StatusOK, a.status, a.body)
				require.Equal(t, "Thank you.", a.body)
				require.Equal(t, left, a.headers.Get("RateLimit"))
				if token == "" {
					require.Len(t, a.cookies, 1)
					require.Contains(t, a.cookies[0], "__Host-tallystick-contact=")
				}
				token = a.headers.Get(middleware.TokenHeader)
				require.NotEmpty(t, token)
			}
			// Another instance of the function, which has seen no client: the token says it.
			require.Equal(t, http.StatusTooManyRequests,
				send(t, function(loopback.New(t, cfg).Handler(http.HandlerFunc(contact)), kind), "192.0.2.1", token).status)
			require.Equal(t, http.StatusOK, send(t, fn, "192.0.2.2", "").status, "another client")
		})
	}
}

// The trap: by the default identity every client behind a load balancer is refused.
func TestALBWithoutAnIdentity(t *testing.T) {
	fn := function(loopback.New(t, loopback.Config("contact", 2)).Handler(http.HandlerFunc(contact)), "alb")
	a := shapes["alb"](t, fn, "192.0.2.1", "")
	require.Equal(t, http.StatusForbidden, a.status)
}
