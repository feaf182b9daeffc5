// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A carrier belongs into the clients of a policy: it brings the newest token that an answer had. Calls at
// the same time may leave the older one of two. That is no error: the memory of the instance has the higher count.
type carrier struct{ token atomic.Pointer[string] }

func (c *carrier) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if token := c.token.Load(); token != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, "tallystick-token", *token)
	}
	var header metadata.MD
	err := call(ctx, method, req, reply, conn, append(opts, grpc.Header(&header))...)
	if newest := header.Get("tallystick-token"); len(newest) > 0 {
		c.token.Store(&newest[0])
	}
	return err
}
