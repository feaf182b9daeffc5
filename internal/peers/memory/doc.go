// SPDX-License-Identifier: Apache-2.0

// Package memory measures the memory of the middleware, limiter.Memory,
// against what its documentation promises: how often a new tally begins with a count that is not its own,
// how often it is taken for another, whether strangers can lower a victim's
// count, whether requests in parallel are counted exactly, and whether two cores
// get on with it side by side.
//
// Tallies are random keys, as the hash of an identity is one. All of it happens
// at one instant of one sliding window, so nothing that was kept becomes free.
//
// Not measured: windows that roll over, policies of several limits, networks.
// Tests of package limiter cover those.
package memory
