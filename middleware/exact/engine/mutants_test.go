// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks every step of counting exactly in turn; each time some test of
// this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
