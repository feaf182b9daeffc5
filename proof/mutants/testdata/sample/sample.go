// Package sample is a package to break.
package sample

import (
	_ "embed"

	"github.com/tallystick/tallystick/proof/mutants/testdata/sample/below"
)

// Allowed reports whether n is within the limit.
func Allowed(n, limit int) bool {
	if n < 0 {
		return false
	}
	return n <= limit
}

// Spin counts to n.
func Spin(n int) (i int) {
	for i < n {
		i++
	}
	return i
}

// Twice is for tests outside.
func Twice(n int) int { return n + n }

// Thrice is for another package.
func Thrice(n int) int { return n + n + n }

// Word is in a file.
//
//go:embed word.txt
var Word string

// Quarter has its arithmetic elsewhere.
func Quarter(n int) int { return below.Half(below.Half(n)) }
