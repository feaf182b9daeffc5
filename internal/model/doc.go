// SPDX-License-Identifier: Apache-2.0

// Package model explores what clients can do to a limiter without a store, to the end: every
// order in which they can ask every instance of a small fleet and show every token that they
// have, while instances lose their memories, a clock steps and windows pass. In each state the
// table of bounds must hold, and no client may be refused that is under its limit.
//
// Each request is a call of a real memory of package limiter. How package middleware makes it is written here a
// second time: which tally goes first and what the modes do, in calls.go; who is whose home, in moves.go. So
// nothing here finds a mistake in package middleware's own files. What is true is kept beside it, by other
// arithmetic; see truth.go and rules.go. promela/rules.pml has the same rules written once more,
// for the model checker Spin. README.md prints what was explored, and docs/proof.md lists what is left out.
//
// # How it stays small
//
// Instances do not talk. So what an instance does follows from what is in its memory, its clock
// and what it is shown, and each such step is made once, on a real memory, and noted. The
// exploration itself is a breadth-first search over states that are a few numbers: the
// number of each instance's memory, the set of tokens that were handed out of each tally, what
// is true. Of states that differ in names only, one is visited; see state.go.
//
// # Homes
//
// Where bought tallies stay near home, a move makes an instance the home of a tally: it issues the
// challenge. The instance is told with each call which of the tallies that are shown are not at home
// there, and counts these in networks of their own, as package middleware has it. What is true of these
// counts is kept for each instance. So a refusal has to be explained by the quota or by the share, and both
// have their lines in the bound.
package model
