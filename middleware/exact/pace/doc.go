// SPDX-License-Identifier: Apache-2.0

// Package pace lets calls wait for their turn: calls to a service of somebody else's that
// permits so many a second or a minute, from many goroutines in many processes. The processes
// share nothing but an exact counter.
//
//	p, err := pace.New(pace.Config{
//		Counter: counter, // of package exact/redis, say
//		Name:    "models",
//		Limits:  []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 500, Window: time.Minute}},
//		Units: map[string][]storeless.Limit{
//			"tokens": {{Algorithm: storeless.TokenBucket, Quota: 80_000, Window: time.Minute, Burst: 10_000}},
//		},
//	})
//	...
//	err = p.Wait(ctx, pace.Cost{Unit: "tokens", N: 1200}) // nil: go
//
// [Pacer.Wait] waits, [Pacer.Schedule] waits and calls, [Transport] is an http.RoundTripper
// that does it for each request.
//
// # Who is next
//
// A call is booked at the counter, once: the answer is the moment at which it may go, behind all
// that were booked before it, in whatever process. It sleeps until then. Nobody polls, and no
// two wake together that may not go together, which is why nothing needs jitter but pauses.
//
// Within a process it is first come, first served. Between processes it is fair to processes:
// each books its next call when its last booked one is due within a second, so that a process
// with a thousand calls that wait goes in turn with one that has a single call.
//
// A call that leaves, because its context ends, hands its place to the next of the same cost
// in its process. If there is none, the place is given back, and the next that is booked, in
// any process, has it. Nothing stays charged.
//
// # Limits
//
// A limit must be a bucket. A LeakyBucket of L in W never lets more than L go in any span of W,
// evenly spread. A TokenBucket lets its Burst go at once after a quiet time, and at most L+Burst
// in any span of W: give it a Quota and a Burst that together are what the service permits. That
// is when calls go. On their way, one may be held up and the next not: leave the network some room.
//
// What is counted apart, requests and tokens, is booked apart, each of it a call of the counter:
// first what made the last call wait, and the rest when its moment has come. A call goes
// at the later of the moments. What has been booked more than a second before that is given back
// and booked again, so that of a unit with quota L at most L·(1 + 1 s/W) are used in a window.
//
// # Pauses
//
// [Pacer.Pause], and what responses say to [Transport], stop all processes within half a second
// and a round trip to the counter: what is booked later is booked behind the pause, and places
// that were booked before are asked about before they are used. Those that lie in the pause are
// booked again, in the order in which they would have gone.
//
// # What it does not do
//
// A process that is killed leaves what it had booked, a second's worth and one place at most, and
// that time passes unused. While the counter does not answer, no call goes: each fails with the
// counter's error, after twice the Deadline from when it is asked, eight at a time. What a call really cost, if that is
// known only afterwards, is charged by [exact.Call].Past.
package pace
