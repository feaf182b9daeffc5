// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks every step of telling, carrying, deciding and answering in turn; each
// time some test must fail, of this package or of those that show what a whole site gives. Some of them count allocations.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"), "../proof/bounds", "../proof/threats")
}
