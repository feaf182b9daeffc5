// SPDX-License-Identifier: Apache-2.0

// The tests of this folder hold the repository to its own rules: which package imports
// which, no cycle among the files of a package, licences, and what a program grows by.
package repository_test

import (
	"os"
	"testing"
)

// The tests name files as the repository does, from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
