// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// Machines have one list. The same line serves all of them: each finds itself.
func ExampleOpen() {
	group, err := peers.Open(peers.Config{
		Members: []string{"10.0.0.7:9000", "10.0.0.8:9000", "10.0.0.9:9000"},
		Secrets: [][]byte{[]byte(os.Getenv("PEERS_SECRET"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8080"} // its handlers are behind middleware.Config{Peers: group, ...}
	// On SIGTERM:
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx)
	_ = group.Close(ctx)
}

// On Kubernetes a headless Service (clusterIP: None) names the pods. Set publishNotReadyAddresses: else no pod finds another
// while a whole deployment starts.
func ExampleOpen_kubernetes() {
	group, err := peers.Open(peers.Config{
		DNS:     "peers.default.svc.cluster.local:9000",
		Self:    net.JoinHostPort(os.Getenv("POD_IP"), "9000"), // fieldPath: status.podIP
		Secrets: [][]byte{[]byte(os.Getenv("PEERS_SECRET"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close(context.Background())
}

// On Fly the private network names the machines of an app, and encrypts what they say.
func ExampleOpen_fly() {
	group, err := peers.Open(peers.Config{
		DNS:     os.Getenv("FLY_APP_NAME") + ".internal:9000",
		Self:    net.JoinHostPort(os.Getenv("FLY_PRIVATE_IP"), "9000"),
		Secrets: [][]byte{[]byte(os.Getenv("PEERS_SECRET"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close(context.Background())
}
