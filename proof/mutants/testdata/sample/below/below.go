// Package below is part of what sample does.
package below

// Half is for those above.
func Half(n int) int { return n / 2 }
