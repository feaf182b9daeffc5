// SPDX-License-Identifier: Apache-2.0

package tallygrpc_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tallystick/tallystick/storeless"
	"github.com/tallystick/tallystick/token"
)

// A streamLimit limits the messages of streams by packages storeless and token, and needs no part of middleware.
type streamLimit struct {
	limiter *storeless.Limiter
	codec   *token.Codec
	now     func() time.Time
}

// A limitedStream charges each message that it receives.
type limitedStream struct {
	grpc.ServerStream
	limit   streamLimit
	tenant  string
	tally   storeless.Tally
	refused error
}

func (s *limitedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	tally, verdict := s.limit.limiter.Take(s.limit.now(), s.tenant, s.tally, 1)
	if s.tally = tally; !verdict.Admitted {
		s.refused = status.Errorf(codes.ResourceExhausted, "too many messages: come again in %s", verdict.Wait)
	}
	return s.refused
}

// intercept is a grpc.StreamServerInterceptor. A stream brings the token of the last one, and ends with the newest.
func (l streamLimit) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	limited := &limitedStream{ServerStream: stream, limit: l, tenant: "acme"} // as your authentication says
	if shown := metadata.ValueFromIncomingContext(stream.Context(), tokens); len(shown) > 0 {
		limited.tally, _ = l.codec.Verify(l.now(), limited.tenant, shown[0]) // a token that is refused is as if absent
	}
	err := next(srv, limited)
	stream.SetTrailer(metadata.Pairs(tokens, l.codec.Sign(limited.tenant, limited.tally)))
	if limited.refused != nil {
		return limited.refused // whatever the handler has made of it
	}
	return err
}

// Three messages a minute, over the streams of two servers that share a secret and no store.
func Example_storeless() {
	limits := storeless.Config{Policy: "talk", Limits: []storeless.Limit{{Quota: 3, Window: time.Minute}}}
	codec, err := token.New(limits, [][]byte{[]byte(rand.Text() + rand.Text())}) // a real one comes from where the program keeps such things
	if err != nil {
		log.Fatal(err)
	}
	shown := ""
	for range 2 {
		limiter, err := storeless.New(limits)
		if err != nil {
			log.Fatal(err)
		}
		limit := streamLimit{limiter, codec, func() time.Time { return time.Unix(1_700_000_000, 0) }}
		server := grpc.NewServer(grpc.StreamInterceptor(limit.intercept))
		server.RegisterService(&echoes, nil)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		go func() { _ = server.Serve(listener) }()
		shown, err = say(listener.Addr().String(), shown, "hello", "again")
		fmt.Println(err)
		server.Stop()
	}
	// Output:
	// <nil>
	// rpc error: code = ResourceExhausted desc = too many messages: come again in 1m0s
}

// say sends messages in one stream, and returns the token for the next one.
func say(target, shown string, messages ...string) (next string, err error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(metadata.AppendToOutgoingContext(context.Background(), tokens, shown), &echoes.Streams[0], talk)
	for i := 0; err == nil && i < len(messages); i++ {
		if err = stream.SendMsg(wrapperspb.String(messages[i])); err == nil {
			err = stream.RecvMsg(new(wrapperspb.StringValue))
		}
	}
	if err == nil {
		_ = stream.CloseSend()
		_ = stream.RecvMsg(new(wrapperspb.StringValue)) // the end
	}
	if stream == nil {
		return "", err
	}
	if md := stream.Trailer().Get(tokens); len(md) > 0 {
		next = md[0]
	}
	return next, err
}
