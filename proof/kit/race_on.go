// SPDX-License-Identifier: Apache-2.0

//go:build race

package kit

// Race says that the race detector watches: then all takes several times as long,
// and sync.Pool drops items at random, so that allocations cannot be counted.
const Race = true
