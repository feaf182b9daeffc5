// SPDX-License-Identifier: Apache-2.0

package exacttest_test

import (
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/middleware/exact/memory"
)

// Does a counter count exactly? The clock is moved by the suite.
func ExampleTestCounter() {
	clock := exacttest.NewClock()
	fmt.Println(exacttest.TestCounter(func() (exact.Counter, error) { return memory.New(0, clock.Now), nil }, clock))
	// Output: <nil>
}
