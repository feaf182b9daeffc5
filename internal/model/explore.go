// SPDX-License-Identifier: Apache-2.0

package model

import "hash/maphash"

// Explore visits every state of a world, by the shortest way, until a rule is broken.
func (w World) Explore() (Result, error) {
	c, err := w.compile()
	if err != nil {
		return Result{}, err
	}
	e := c.explorer()
	e.explore()
	e.result.States, e.result.Memories, e.result.Calls = len(e.seen), len(e.memories.calls), len(e.memories.after)
	return e.result, nil
}

func (w *compiled) explorer() *explorer {
	return &explorer{
		compiled: w, counts: newCounts(w.bucket()), memories: newMemories(w),
		optionsOf: map[optionsKey][]count{}, attacks: map[attackKey][]attack{}, seen: map[fingerprint]struct{}{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

func (w *explorer) explore() {
	now := []state{w.start()}
	w.visit(&now[0])
	w.ways = append(w.ways, way{from: -1})
	for first := 0; len(now) > 0; w.result.Longest++ {
		var next []state
		count := len(now)
		for i := range now {
			w.moves(&now[i], func(m move, s state, fault string) {
				if w.result.Broken != "" {
					return
				}
				w.result.Moves++
				if fault != "" {
					w.result.Broken = fault
					w.result.Trace = w.trace(first+i, m)
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
		first += count
		now = next
	}
	w.result.Longest--
}

// visit reports whether a state is new.
func (w *explorer) visit(s *state) bool {
	w.scratch = s.appendTo(w.scratch[:0])
	f := fingerprint{maphash.Bytes(w.seeds[0], w.scratch), maphash.Bytes(w.seeds[1], w.scratch)}
	if _, seen := w.seen[f]; seen {
		return false
	}
	w.seen[f] = struct{}{}
	return true
}

// trace tells the moves that lead to a state, and then one more.
func (w *explorer) trace(at int, last move) []string {
	var moves []move
	for ; w.ways[at].from >= 0; at = int(w.ways[at].from) {
		moves = append([]move{w.ways[at].by}, moves...)
	}
	return w.told(append(moves, last))
}
