// SPDX-License-Identifier: Apache-2.0

// Package castest tells whether a store keeps what a [cas.Store] promises. A package that
// implements one runs it in a test:
//
//	func TestStore(t *testing.T) {
//		if err := castest.TestStore(newStore(), 400<<10); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// It cannot tell what a store keeps when its server fails: that is for tests that know how
// to make it fail. Whether a counter in it counts exactly, package exacttest tells.
package castest

import (
	"errors"
	"fmt"

	"github.com/tallystick/tallystick/middleware/exact/cas"
)

// TestStore returns all faults of a store, joined. The store must take values of any bytes,
// 1 to largest of them. A counter of one limit without a log has values of some 50 bytes,
// and some 30 more for each call with an ID in the last exact.IDLife; a sliding log has 7
// for each charge.
//
// It uses the store's own time and takes some three seconds. It leaves its values
// behind, under random names, to be kept for at most a minute.
func TestStore(store cas.Store, largest int) error {
	var errs []error
	for _, check := range []struct {
		name string
		run  func(*run)
	}{
		{"what was never kept", absent},
		{"what is swapped in is loaded", kept},
		{"a lost race is named", raced},
		{"a revision never comes back", fresh},
		{"names are apart", apart},
		{"values of every size", func(r *run) { sizes(r, largest) }},
		{"one wins", oneWins},
		{"nothing is lost", nothingLost},
		{"a context that has ended", ended},
		{"how long a value is kept", keeps},
		{"the time of a store that has a clock", tells},
		{"what a store lists", lists},
	} {
		if err := newRun(store).found(check.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(errs...)
}
