// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/file"
	"github.com/tallystick/tallystick/storeless"
)

// What was counted is there when the program starts again.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "counts-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	limits, err := exact.Compile("api", []storeless.Limit{{Algorithm: storeless.FixedWindow, Quota: 10, Window: 365 * 24 * time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		counter, err := file.Open(filepath.Join(dir, "counts.db"), file.Config{})
		if err != nil {
			fmt.Println(err)
			return
		}
		v, err := counter.Take(context.Background(), exact.Call{Key: "customer-7", Cost: 3, Policy: limits})
		fmt.Println(v.Limits[0].Remaining, err, counter.Close())
	}
	// Output:
	// 7 <nil> <nil>
	// 4 <nil> <nil>
}
