// SPDX-License-Identifier: Apache-2.0

package storeless_test

import (
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/storeless"
)

// A program that has a form of its own for configuration shows each problem beside its field.
func ExampleConfigErrors() {
	err := fmt.Errorf("policy contact: %w", errors.Join( // as middleware.New returns it
		&storeless.ConfigError{Field: "Limits[0].Quota", Problem: "must be at least 1, not 0"},
		&storeless.ConfigError{Field: "Limits[0].Window", Problem: "must be at least 1s, not 0s"},
	))
	for problem := range storeless.ConfigErrors(err) {
		fmt.Printf("%s: %s\n", problem.Field, problem.Problem)
	}
	// Output:
	// Limits[0].Quota: must be at least 1, not 0
	// Limits[0].Window: must be at least 1s, not 0s
}
