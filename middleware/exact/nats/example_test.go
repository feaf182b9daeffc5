// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"log"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/nats"
)

// A counter in a bucket of three replicas.
func ExampleOpen() {
	conn, err := client.Connect(client.DefaultURL, client.ReconnectWait(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	store, err := nats.Open(context.Background(), js, nats.Config{Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	counter, err := cas.New(store, cas.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_ = counter // for middleware.Exact.Counter
}
