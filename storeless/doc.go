// SPDX-License-Identifier: Apache-2.0

// Package storeless is the limiter without HTTP: for the consumers of a queue, a gRPC stream, a game server. Programs
// on net/http import package middleware, which is the same engine behind handlers.
//
//	limits := storeless.Config{Policy: "jobs", Limits: []storeless.Limit{{Quota: 100, Window: time.Minute}}}
//	limiter, err := storeless.New(limits)
//	codec, err := token.New(limits, secrets)         // the same secrets on each instance
//
//	shown, _ := codec.Verify(now, tenant, tok)       // what the client brings; a bad token is as if absent
//	tally, verdict := limiter.Take(now, tenant, shown, 1)
//	tok = codec.Sign(tenant, tally)                  // goes back to the client, which brings it next time
//	if !verdict.Admitted {
//		// refused: the same request passes after verdict.Wait
//	}
//
// In a queue, the client puts the token into its next job; see the example. If no token goes back, each instance counts
// alone.
//
// There is no store. The client carries what it has used, its tally, as a signed token (package token), and
// each instance remembers the highest count of each identity in a fixed amount of memory. A decision
// uses the higher of the two.
//
// # What is promised
//
// With a quota of L, an identity that brings its newest tally back gets L, on any number of instances. One
// that drops its tally, or brings an older one, gets at most (N+C)·L in a window from N instances with C
// restarts. The same bound holds for one that sends requests to several instances at once. A tally under its
// limit is not refused, unless it is new to a memory that is full ([Verdict].Inherited). docs/bounds.md has
// the table. For exact counts across instances, use a counter of package middleware/exact, which takes the
// same limits.
//
// All limits of a policy are checked, then all are charged, or none is. A refusal charges
// nothing. Time is an argument: the package reads no clock and starts no goroutine.
//
// # Algorithms
//
// L is the quota, W the window, B the burst, T the interval of a bucket: W/L, rounded up to a microsecond.
//
//	algorithm      admits at most
//	-------------  --------------------------------------------------------------
//	SlidingWindow  L in an aligned window, and at any instant; 2L−1 in any span of W
//	FixedWindow    L in an aligned window; 2L in any span of W, and even in the
//	               shortest span around a boundary
//	TokenBucket    B at any instant; B + ⌊W/T⌋ in any span of W
//	LeakyBucket    1 at any instant; 1 + ⌊W/T⌋ in any span of W
//
// Windows are aligned to the Unix epoch. A cost above the quota (of buckets: the burst) is refused as
// [Verdict].Impossible. SlidingLog and RollingDay are for exact counters alone.
//
// # Waiting
//
// [Verdict].Wait is exact: the same request passes at now+Wait if the identity sends no other request, and
// does not pass a second earlier. If you send it to clients, add jitter, and only upwards.
// [LimitStatus].Reset is this wait for one limit. If the limit has room, Reset is the time until Remaining
// next rises.
//
// # Clocks
//
// The clocks of instances may differ by min(5 s, W/10) for each limit. A window then begins early for a tally
// that comes from a clock ahead. On an instance whose clock is behind by D, a bucket's debt is larger by D.
// So use a window if your clocks do not agree to within T.
//
// # Units
//
//	Limit.Window          whole seconds, 1 s to 366 days
//	Limit.Quota, Burst    cost, 1 to 2³¹−1; B·W/L at most 366 days
//	cost                  any unit the caller likes; a request usually costs 1. One for each limit where they count
//	                      different things: Take(now, tenant, shown, 1, 850) is a request of 850 tokens
//	Verdict.Wait          whole seconds, rounded up; so is LimitStatus.Reset
//	Verdict.Inherited     cost
package storeless
