// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// A target is an address of the list.
type target struct {
	address  string
	name     uint64 // of the process that has answered there last
	dialing  bool
	answered time.Time // the last time, or when it came onto the list
	err      error     // why it did not
}

// A roster is the list of this process. A list says only which addresses are greeted.
type roster struct {
	list    []string // in order; nil: there was none yet
	digest  uint64
	changes uint64
	at      time.Time // when it was told last
	targets []*target
}

// adopt takes a list, which is in order, and returns what it had before if that was another.
func (r *roster) adopt(list []string, now time.Time) (before []string, changed bool) {
	r.at = now
	if slices.Equal(list, r.list) {
		return nil, false
	}
	before, r.list = r.list, list
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	r.digest = binary.BigEndian.Uint64(sum[:])
	r.changes++
	targets := make([]*target, len(list))
	for i, address := range list {
		targets[i] = &target{address: address, answered: now}
		if j := slices.IndexFunc(r.targets, func(t *target) bool { return t.address == address }); j >= 0 {
			targets[i] = r.targets[j]
		}
	}
	r.targets = targets
	return before, true
}

// without returns the addresses of a list that another has not.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
