// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks what keeps a form; each time some test of this package must fail. What requests alone can notice is in the
// list of package middleware.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
