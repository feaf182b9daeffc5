// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"log"
	"os"

	"github.com/tallystick/tallystick/middleware/exact/ring"
)

// The processes of a program find each other by DNS.
func ExampleOpen() {
	counter, err := ring.Open(ring.Config{
		Self:    os.Getenv("ADDRESS"), // of this process, as the others reach it: 10.0.0.7:9000
		DNS:     "my-app.internal:9000",
		Secrets: [][]byte{[]byte(os.Getenv("RING_SECRET"))},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer counter.Close()
	// middleware.Exact{Counter: counter, ...}
}
