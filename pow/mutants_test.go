// SPDX-License-Identifier: Apache-2.0

package pow

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants: each check, taken out, is missed by a test. Some of the tests count
// allocations, which are more where nothing is inlined.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
