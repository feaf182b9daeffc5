// SPDX-License-Identifier: Apache-2.0

// Package model explores what clients can do to a limiter without a store, to the end: every
// order in which they can ask every instance of a small fleet and show every token that they
// have, while instances lose their memories, a clock steps, windows pass, costs are settled and an instance is
// reconfigured. In each state the table of bounds must hold, and no client may be refused that is under its limit.
//
// Each request is one of HTTP to a real Middleware, by a clock that is moved by hand, and shows real tokens: which
// tally goes first and what the modes do is decided by package middleware. What is true is kept
// beside it, by other arithmetic; see truth.go and rules.go. README.md prints what was explored, and
// docs/proof.md lists what is left out.
//
// # How it stays small
//
// Instances do not talk. So what an instance does follows from what it holds, its clock
// and what it is shown, and each such step is made once, by a real instance, and noted. The
// exploration itself is a breadth-first search over states that are a few numbers: the
// number of what each instance holds, the set of tokens that were handed out of each tally, what
// is true. Of states that differ in names only, one is visited; see state.go.
//
// # What is its own
//
// The model signs the tokens that clients show, with the secret of the fleet: they are those that were handed out, or
// two of them merged, for the clients of the life that is played; see life.go. It reads the identity of a bought
// tally from its challenge.
//
// # Networks
//
// What is true of the networks around an address is kept for each instance. So a refusal has to be explained by the
// quota or by a network, and both have their lines in the bound.
package model
