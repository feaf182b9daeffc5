// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"maps"
	"slices"

	"github.com/tallystick/tallystick/middleware"
)

// Bounds returns what clients get at most by each policy of a file, see [middleware.BoundsOf]. It needs neither the
// program nor the secrets, so that a change is judged before it goes live. All problems are reported, as [Open] does.
// The name is the file's, for the errors alone.
func Bounds(name string, text []byte) ([]middleware.Bounds, error) {
	f := new(file)
	f.problems = readShape(name, text, &f.keys)
	var all []middleware.Bounds
	for _, policy := range slices.Sorted(maps.Keys(f.keys.Policies)) {
		at := join("policies", policy)
		if f.more > 0 || f.unreadBelow(at) { // not all is known of what is not there
			continue
		}
		c := config{Config: configOf(policy, f.keys.Policies[policy], middleware.Config{}), at: at}
		bounds, err := middleware.BoundsOf(c.Config)
		f.addOf(c, err)
		all = append(all, bounds)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return all, nil
}
