// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// Count by hand, without HTTP: a job queue with 1000 a day for each customer, and no
// more than 10 in any minute.
func Example() {
	limits, err := exact.Compile("jobs", []storeless.Limit{
		{Name: "minute", Algorithm: storeless.SlidingLog, Quota: 10, Window: time.Minute},
		{Name: "day", Algorithm: storeless.RollingDay, Quota: 1000, Window: 24 * time.Hour},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	counter := memory.New(0, exacttest.NewClock().Now) // nil for the real clock
	job := exact.Call{Key: "customer-7", Cost: 4, Policy: limits}
	for range 3 {
		v, err := counter.Take(context.Background(), job)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Admitted, v.Limits[0].Remaining, v.Limits[1].Remaining, v.Wait)
	}
	// Output:
	// true 6 996 0s
	// true 2 992 0s
	// false 2 992 1m0s
}

// Give back what a failed job was charged.
func ExampleCounter() {
	limits, err := exact.Compile("jobs", []storeless.Limit{{Quota: 10, Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, counter := context.Background(), memory.New(0, nil)
	v, err := counter.Take(ctx, exact.Call{Key: "customer-7", Cost: 1, Policy: limits})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(counter.Refund(ctx, v.Receipt))
	fmt.Println(counter.Refund(ctx, v.Receipt))
	// Output:
	// <nil>
	// exact: nothing to refund
}
