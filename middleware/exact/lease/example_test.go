// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/lease"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// Take up to 64 calls of a key ahead, on four instances of one counter.
func ExampleNew() {
	hits, err := exact.Compile("hits", []storeless.Limit{{Quota: 100_000, Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	shared := memory.New(0, nil) // in a program: of package redis, say
	counter, err := lease.New(shared, lease.Config{Instances: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	call := exact.Call{Key: "customer-7", Cost: 1, Policy: hits}
	for range 10 {
		if _, err := counter.Take(ctx, call); err != nil {
			fmt.Println(err)
			return
		}
	}
	left := func() int64 {
		v, err := shared.Peek(ctx, call)
		if err != nil {
			fmt.Println(err)
		}
		return v.Limits[0].Remaining
	}
	fmt.Println("while blocks are held:", left() < 100_000-10)
	fmt.Println(counter.Close())
	fmt.Println("given back:", 100_000-left())
	// Output:
	// while blocks are held: true
	// <nil>
	// given back: 10
}
