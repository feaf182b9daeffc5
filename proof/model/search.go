// SPDX-License-Identifier: Apache-2.0

package model

import "hash/maphash"

// Explore visits every state of a world, by the shortest way, until a rule is broken.
func (w World) Explore() (Result, error) {
	e, err := w.explorer()
	if err != nil {
		return Result{}, err
	}
	e.explore()
	e.result.States = len(e.seen)
	return e.result, nil
}

func (w *explorer) explore() {
	now := []state{w.start()}
	w.visit(&now[0])
	w.ways = append(w.ways, way{from: -1})
	for first := 0; len(now) > 0; {
		var next []state
		for i := range now {
			w.moves(&now[i], func(m move, s state, fault string) {
				if w.result.Broken != "" {
					return
				}
				w.result.Moves++
				if fault != "" {
					w.result.Broken, w.result.Trace = fault, w.trace(first+i, m)
					return
				}
				if w.visit(&s) {
					next = append(next, s)
					w.ways = append(w.ways, way{int32(first + i), m})
				}
			})
			if w.result.Broken != "" {
				return
			}
		}
		first += len(now)
		now = next
	}
}

// visit reports whether a state is new.
func (w *explorer) visit(s *state) bool {
	f := fingerprint{maphash.Comparable(w.seeds[0], *s), maphash.Comparable(w.seeds[1], *s)}
	if _, seen := w.seen[f]; seen {
		return false
	}
	w.seen[f] = struct{}{}
	return true
}
