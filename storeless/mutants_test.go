// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks the door of the engine; each time some test of this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
