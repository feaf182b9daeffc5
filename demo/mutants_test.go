// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/tallystick/tallystick/proof/mutants"
)

// TestMutants breaks what an attack and its reloads hang on; each time some test must fail.
func TestMutants(t *testing.T) {
	mutants.Run(t, ".", mutants.Load(t, "testdata/mutants/*.json"))
}
