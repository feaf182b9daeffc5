// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"log"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/redis"
)

// A counter that takes blocks ahead, for eight instances: most calls make no round trip.
func ExampleOpen() {
	counter, err := redis.Open("redis://localhost:6379/0", redis.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer counter.Close()
	leased, err := lease.New(counter, lease.Config{Instances: 8, Idle: 500 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer leased.Close()
	// middleware.Exact{Counter: leased, ...}
}
