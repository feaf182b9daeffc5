// SPDX-License-Identifier: Apache-2.0

// Command grpc is a gRPC server with a limiter. The documentation prints parts of it, in docs/recipes.md.
// Its only service is the health check, so that it needs no generated code.
package main

import (
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallygrpc"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "calls",
		Limits:  []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets: [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", ":9090")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server(limit).Serve(listener))
}

func server(limit *middleware.Middleware) *grpc.Server {
	calls := tallygrpc.Interceptor{Limit: limit}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(calls.Unary), grpc.ChainStreamInterceptor(calls.Stream))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer()) // yours go here
	return s
}
