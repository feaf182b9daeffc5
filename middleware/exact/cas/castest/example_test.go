// SPDX-License-Identifier: Apache-2.0

package castest_test

import (
	"testing"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
)

// A test of a package that has a store of its own.
func ExampleTestStore() {
	_ = func(t *testing.T, store cas.Store) {
		if err := castest.TestStore(store, 64<<10); err != nil {
			t.Fatal(err)
		}
	}
}
