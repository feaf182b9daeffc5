// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/memory"
	"github.com/tallystick/tallystick/storeless"
)

// Count in this process.
func ExampleNew() {
	reports, err := exact.Compile("reports", []storeless.Limit{{Quota: 2, Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	counter := memory.New(0, nil) // room for 262,144 keys, by the real clock
	for range 3 {
		v, err := counter.Take(context.Background(), exact.Call{Key: "customer-7", Cost: 1, Policy: reports})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Admitted)
	}
	// Output:
	// true
	// true
	// false
}
