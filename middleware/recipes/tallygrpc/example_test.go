// SPDX-License-Identifier: Apache-2.0

package tallygrpc_test

import (
	"log"
	"time"

	"google.golang.org/grpc"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallygrpc"
)

// A report costs ten calls, and health checks are free.
func ExampleInterceptor() {
	limit, err := middleware.New(middleware.Config{
		Policy:  "calls",
		Limits:  []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets: [][]byte{[]byte("an example is no place for secrets")},
	})
	if err != nil {
		log.Fatal(err)
	}
	calls := tallygrpc.Interceptor{
		Limit: limit,
		Cost: func(method string) int64 {
			if method == "/acme.Reports/Make" {
				return 10
			}
			return 1
		},
		Skip: func(method string) bool { return method == "/grpc.health.v1.Health/Check" },
	}
	_ = grpc.NewServer(grpc.UnaryInterceptor(calls.Unary), grpc.StreamInterceptor(calls.Stream))
}
