// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks what bounds a client's costs and keeps its requests from
// waiting in vain; each time some test of this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
