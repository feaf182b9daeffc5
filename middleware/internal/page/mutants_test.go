// SPDX-License-Identifier: Apache-2.0

package page

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks escaping; each time some test of this
// package must fail. What requests alone can notice is in the list of package middleware.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
