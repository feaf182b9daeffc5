// SPDX-License-Identifier: Apache-2.0

// The tests of this folder hold the repository to its own rules: which package imports
// which, no cycle among the files of a package, licences, and what a program grows by.
package repository_test

import "testing"

// atRoot has a test name files as the repository does. Not in TestMain: the go command notes
// which files a test reads only while it runs, and would say "(cached)" of files that have changed.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}
