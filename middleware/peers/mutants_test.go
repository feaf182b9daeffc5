// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks what keeps strangers out and peers together; each time some test of this package must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
