// SPDX-License-Identifier: Apache-2.0

package storeless

// A Tally counts what one identity has used of each limit, in the order of the limits; what lies beyond them is
// zero. It never says what remains, so that a changed quota applies at once. The zero Tally has
// used nothing.
type Tally [MaxLimits]State

// A State counts what was used of one limit.
//
// Of windows, At is the number of the window since the Unix epoch, Cur the cost that was used in it, and
// Prev in the window before. Of buckets, At is the theoretical arrival time in microseconds since
// the epoch, Cur is 0 or, in seconds, by how much the bucket is further ahead than a full one, and Prev is 0.
type State struct {
	At        int64
	Cur, Prev uint32
}
