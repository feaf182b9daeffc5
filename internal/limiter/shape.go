// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"time"
)

// Packages storeless and middleware show these types to their users as types of their own, whose doc
// comments say what each field means. The engine needs none of them: it takes every type of the same shape.

// Algorithm names the arithmetic of a [Limit].
type Algorithm uint8

// The algorithms, in the order of the numbers that package storeless has for them.
const (
	SlidingWindow Algorithm = iota
	FixedWindow
	TokenBucket
	LeakyBucket
	SlidingLog // for exact counters alone
	RollingDay // for exact counters alone
)

// String returns the name of the algorithm, as used in errors, docs and ids of limits.
func (a Algorithm) String() string {
	switch a {
	case SlidingWindow:
		return "sliding-window"
	case FixedWindow:
		return "fixed-window"
	case TokenBucket:
		return "token-bucket"
	case LeakyBucket:
		return "leaky-bucket"
	case SlidingLog:
		return "sliding-log"
	case RollingDay:
		return "rolling-day"
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Bounds of a [Limit] and of a policy.
const (
	MaxLimits = 8 // so that a [Verdict] is an array and allocates nothing
	MaxQuota  = 1<<31 - 1
	MaxWindow = 366 * 24 * time.Hour // also the longest time in which a bucket may empty
)

// A Limit is a quota per window.
type Limit struct {
	Name      string
	Algorithm Algorithm
	Quota     int64
	Window    time.Duration
	Calendar  string
	Zone      string
	Burst     int64
	Shadow    bool
}

// A limit is any type with the fields of [Limit], whose algorithms are A.
type limit[A ~uint8] interface {
	~struct {
		Name      string
		Algorithm A
		Quota     int64
		Window    time.Duration
		Calendar  string
		Zone      string
		Burst     int64
		Shadow    bool
	}
}

// LimitAs returns l as a limit of another package.
func LimitAs[To limit[B], From limit[A], A, B ~uint8](l From) To {
	from := struct {
		Name      string
		Algorithm A
		Quota     int64
		Window    time.Duration
		Calendar  string
		Zone      string
		Burst     int64
		Shadow    bool
	}(l)
	return To{from.Name, B(from.Algorithm), from.Quota, from.Window, from.Calendar, from.Zone, from.Burst, from.Shadow}
}

// ownLimits returns limits as the engine's.
func ownLimits[L limit[A], A ~uint8](limits []L) []Limit {
	own := make([]Limit, len(limits))
	for i := range limits {
		own[i] = LimitAs[Limit](limits[i])
	}
	return own
}

// A LimitStatus is the state of one limit after a decision.
type LimitStatus struct {
	Remaining int64         // cost that would still pass now; never negative
	Reset     time.Duration // whole seconds until a blocked limit admits this cost, else until Remaining next rises; 0 if it is full
	Blocked   bool          // this limit refused, or would have if it is a shadow
	Shadow    bool          // this limit never refuses
}

// A Verdict is the outcome of one decision.
type Verdict struct {
	Admitted   bool  // every limit in force had room, and all were charged, but for shadows that had none
	Impossible bool  // the cost is above the capacity of a limit
	Inherited  int64 // what a newcomer to a full memory began with, in cost, of the limit where that is the largest part
	Saturated  bool  // there was no room to remember that the proof is spent
	Spent      bool  // the proof had bought a request before
	Wait       time.Duration
	Limits     [MaxLimits]LimitStatus
}

// A status is any type with the fields of [LimitStatus].
type status interface {
	~struct {
		Remaining int64
		Reset     time.Duration
		Blocked   bool
		Shadow    bool
	}
}

// A verdict is any type with the fields of [Verdict], whose statuses are S.
type verdict[S status] interface {
	~struct {
		Admitted   bool
		Impossible bool
		Inherited  int64
		Saturated  bool
		Spent      bool
		Wait       time.Duration
		Limits     [MaxLimits]S
	}
}

// VerdictAs returns v as a verdict of another package.
func VerdictAs[To verdict[T], From verdict[S], S, T status](v From) To {
	from := struct {
		Admitted   bool
		Impossible bool
		Inherited  int64
		Saturated  bool
		Spent      bool
		Wait       time.Duration
		Limits     [MaxLimits]S
	}(v)
	var limits [MaxLimits]T
	for i := range limits {
		limits[i] = T(from.Limits[i])
	}
	return To{from.Admitted, from.Impossible, from.Inherited, from.Saturated, from.Spent, from.Wait, limits}
}

// A state is any type with the fields of [State].
type state interface {
	~struct {
		At        int64
		Cur, Prev uint32
	}
}

// StatesAs returns the states of a tally as states of another package.
func StatesAs[To, From state](tally [MaxLimits]From) (to [MaxLimits]To) {
	for i := range tally {
		to[i] = To(tally[i])
	}
	return to
}
