// SPDX-License-Identifier: Apache-2.0

package world

import "github.com/tallystick/tallystick/proof/lab/court"

// set makes the field be found so often.
func (f field) set(n int64) {
	switch x := f.value.(type) {
	case *Count:
		x.Store(n)
	case *int64:
		*x = n
	case *court.Complaints:
		for range n {
			x.Note("what it was")
		}
	}
}

// Happen has all happen that must, in tests of what judges.
func Happen(of any) {
	for f := range fields(of) {
		f.set(f.least)
	}
}

// Breakages are all ways in which one field can be wrong, for the same tests. Each returns the row that must say so.
func Breakages[T any](of *T) (all []func(*T) string) {
	for f := range fields(of) {
		all = append(all, func(of *T) string {
			for other := range fields(of) {
				if other.what == f.what {
					other.set(max(1, f.least) - min(1, f.least))
				}
			}
			return f.what
		})
	}
	return all
}
