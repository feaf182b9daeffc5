// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks every step of telling, carrying, deciding and answering in turn; each
// time some test of this package must fail. Some of them count allocations.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
