// SPDX-License-Identifier: Apache-2.0

// Package tallyconnect answers the clients that a limiter in front of a connect server refuses, in
// the protocol that they speak. The limiter itself is plain HTTP middleware:
//
//	cfg.RefusalHandler = tallyconnect.Refused()
//	mux.Handle(path, limit.Handler(handler))
//
// What bites without it: a gRPC client that is refused gets 429 and problem details, no grpc-status, and
// says Unknown or Unavailable. With it the code is ResourceExhausted in all three protocols, with
// google.rpc.RetryInfo where waiting helps, and the token, RateLimit and Retry-After are in the
// response metadata.
//
// One call is one request: a stream is charged when it is opened, however many messages it has. All procedures
// of a handler share the policy; Config.Cost can price them by r.URL.Path. net/http gives every
// call a context with the decision, for middleware.FromContext.
//
// The package is one file: copy it, if the module's dependencies are too many.
package tallyconnect

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tallystick/tallystick/middleware"
)

// Refused returns a Config.RefusalHandler for clients that speak Connect, gRPC or gRPC-Web. Any other gets
// the decision's Status and a line of text. Pass the options of the handlers that it is used with.
func Refused(opts ...connect.HandlerOption) http.Handler {
	writer := connect.NewErrorWriter(opts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := middleware.FromContext(r.Context())
		if !writer.IsSupported(r) {
			http.Error(w, "refused: "+string(d.Reason), d.Status)
			return
		}
		refused := connect.NewError(code(d), errors.New("refused: "+string(d.Reason)))
		if d.RetryAfter > 0 {
			if detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
				refused.AddDetail(detail)
			}
		}
		_ = writer.Write(w, r, refused) // the client has gone: no answer reaches it
	})
}

func code(d middleware.Decision) connect.Code {
	switch d.Status {
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden: // a retry does not help
		return connect.CodeFailedPrecondition
	case http.StatusServiceUnavailable: // the exact counter
		return connect.CodeUnavailable
	}
	return connect.CodeResourceExhausted
}
