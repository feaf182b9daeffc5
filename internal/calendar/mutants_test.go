// SPDX-License-Identifier: Apache-2.0

package calendar_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks each rule of the calendar in turn; each time some test of this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
