// Package sample is a package to break.
package sample

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

// Twice is not inlined: nothing outside depends on what it does within.
//
//go:noinline
func Twice(n int) int { return n + n }
