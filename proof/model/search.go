// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"slices"
)

// Found has the findings of a search.
type Found[M any] struct {
	States, Moves int    // distinct states, and what leads from one to another
	Broken        string // the rule that was broken first, by the fewest moves
	Way           []M    // these moves
}

// Search visits every state that moves lead to from a first one, by the shortest way, until a rule is broken. moves gives
// each state that can follow s to yield, and what broke a rule on the way.
func Search[S, M comparable](start S, moves func(s *S, yield func(m M, next S, fault string))) (found Found[M]) {
	// 128 bits stand for a state: two of a hundred million states have the same with a chance below 1 in 10²². A state
	// itself is several times as large.
	type fingerprint [2]uint64
	type way struct { // how a state was reached first
		from int32
		by   M
	}
	seen, seeds := map[fingerprint]struct{}{}, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	isNew := func(s *S) bool {
		f := fingerprint{maphash.Comparable(seeds[0], *s), maphash.Comparable(seeds[1], *s)}
		_, known := seen[f]
		seen[f] = struct{}{}
		return !known
	}
	isNew(&start)
	ways := []way{{from: -1}}
	for first, now := 0, []S{start}; len(now) > 0 && found.Broken == ""; {
		var next []S
		for i := range now {
			if found.Broken != "" {
				break
			}
			moves(&now[i], func(m M, s S, fault string) {
				if found.Broken != "" {
					return
				}
				found.Moves++
				if fault != "" {
					found.Broken, found.Way = fault, []M{m}
					for at := first + i; ways[at].from >= 0; at = int(ways[at].from) {
						found.Way = append(found.Way, ways[at].by)
					}
					slices.Reverse(found.Way)
				} else if isNew(&s) {
					next = append(next, s)
					ways = append(ways, way{int32(first + i), m})
				}
			})
		}
		first, now = first+len(now), next
	}
	found.States = len(seen)
	return found
}
