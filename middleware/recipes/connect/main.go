// SPDX-License-Identifier: Apache-2.0

// Command connect is a connect server with a limiter. The documentation prints parts of it, in docs/recipes.md.
// Its only procedure is made by hand, so that it needs no generated code.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/recipes/tallyconnect"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:         "calls",
		Limits:         []middleware.Limit{{Quota: 100, Window: time.Minute}},
		Secrets:        [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		TokenTransport: middleware.HeaderOnly,
		RefusalHandler: tallyconnect.Refused(),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8080", Handler: calls(limit), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	log.Fatal(server.ListenAndServe())
}

func calls(limit *middleware.Middleware) http.Handler {
	const greet = "/acme.Greeter/Greet"
	mux := http.NewServeMux()
	mux.Handle(greet, limit.Handler(connect.NewUnaryHandler(greet, hello)))
	return mux
}

func hello(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	return connect.NewResponse(wrapperspb.String("Hello, " + r.Msg.Value)), nil
}
