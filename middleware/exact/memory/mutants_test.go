// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks every step of the counter in memory in turn; each time some test of
// this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
