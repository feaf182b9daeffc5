// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tallystick/tallystick/middleware/recipes/internal/loopback"
	"github.com/tallystick/tallystick/middleware/recipes/tallyconnect"
)

func TestCalls(t *testing.T) {
	cfg := loopback.Config("calls", 1)
	cfg.RefusalHandler = tallyconnect.Refused()
	url := loopback.Serve(t, calls(loopback.New(t, cfg)))
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, url+"/acme.Greeter/Greet")
	a, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann")))
	require.NoError(t, err)
	require.Equal(t, "Hello, Ann", a.Msg.Value)
	_, err = client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("Ann")))
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
}
