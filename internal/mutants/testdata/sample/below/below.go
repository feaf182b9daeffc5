// Package below is part of what sample does.
package below

// Half is not inlined: nothing above depends on what it does within.
//
//go:noinline
func Half(n int) int { return n / 2 }
