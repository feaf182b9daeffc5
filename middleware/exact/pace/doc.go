// SPDX-License-Identifier: Apache-2.0

// Package pace lets calls wait for their turn: calls to an outside service with a rate limit,
// from many goroutines in many processes. The processes share only an exact counter.
//
//	p, err := pace.New(pace.Config{
//		Counter: counter, // of package exact/redis, say
//		Name:    "reports",
//		// The service permits one call in ten seconds. The network may delay one and not the next.
//		Limits:  []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 1, Window: 11 * time.Second}},
//		MaxWait: exact.MaxAhead, // an hour: fifty callers at once wait nine minutes
//	})
//	...
//	err = p.Wait(ctx) // nil: go
//
// [Pacer.Wait] waits, [Pacer.Schedule] waits and calls, [Transport] is an http.RoundTripper
// that does it for each request.
//
// # Order
//
// A call is booked at the counter once. The answer is the moment at which it may go, after all
// earlier bookings of all processes. It sleeps until then. No call polls, and calls wake
// together only if they may go together, so only pauses need jitter.
//
// Within a process calls are served in order of arrival. Each process books its next call
// when its last booked one is due within a second, so a process with a thousand waiting calls
// takes turns with a process that has one.
//
// A call that leaves, because its context ends, hands its place to the next of the same cost
// in its process. If there is none, the place is refunded, and the next booking of any
// process gets it. Nothing stays charged.
//
// # Limits
//
// A limit must be a bucket. A LeakyBucket of L in W never lets more than L go in any span of W,
// evenly spread. A TokenBucket lets its Burst go at once after a quiet time, and at most L+Burst in
// any span of W: give it a Quota and a Burst that together are what the service permits. These
// bounds hold when calls leave. The network may delay one call and not the next: leave it some
// room.
//
// Units that are counted apart, such as requests and tokens, are booked apart, each by a call of
// the counter: first the unit that made the last call wait, and the others when its moment has
// come. A call goes at the latest moment. A booking made more than a second before that is
// refunded and made again, so at most L·(1 + 1 s/W) of a unit with quota L are used in a window.
//
// # Pauses
//
// [Pacer.Pause], and responses to [Transport], stop all processes within half a second and a
// round trip to the counter. Later bookings come after the pause. Earlier places are checked
// before they are used: places within the pause are booked again, in the same order.
//
// # What it does not do
//
// A process that is killed leaves its bookings, at most a second's worth and
// one place, and that time passes unused. While the counter does not answer, no
// call goes: each fails with the counter's error, twice the Deadline after the
// counter is asked, eight at a time. If the true cost of a call is known only
// afterwards, charge it by [exact.Call].Past.
package pace
