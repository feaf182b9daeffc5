// SPDX-License-Identifier: Apache-2.0

// Package exact counts where a count is worth money: "1000 a day" means 1000 over all
// instances.
//
// A program compiles a [Policy], opens a [Counter] and takes a [Call]:
//
//	jobs, err := exact.Compile("jobs", []storeless.Limit{{Quota: 1000, Window: 24 * time.Hour}})
//	// ...
//	counter := memory.New(0, nil) // or of package redis, sql, file, ...
//	v, err := counter.Take(ctx, exact.Call{Key: "customer-7", Cost: 1, Policy: jobs})
//	if err == nil && v.Admitted {
//		// do the job; if it fails, counter.Refund(ctx, v.Receipt)
//	}
//
// For a route of package middleware, set Config.Exact to the counter: the middleware makes the calls.
//
// # Which counter
//
// The packages below this one are the counters. Package memory counts in one process, file on one
// disk, redis, sql, nats and dynamodb on a server, cas on a store of your own, remote in
// processes that hear each other over HTTP. Package lease wraps any of them, and makes fewer calls. Package
// pace turns a counter into a queue for the calls of many processes.
//
// A counter is as exact as its engine. An engine that loses what it has acknowledged, in a
// crash or a failover, forgets that much. Each package says what its engine can lose. A counter
// is also one more thing that can be slow or down, on every request. Package middleware gives
// each call a deadline, and asks what should happen without an answer.
//
// # Past, ahead, pause
//
// With Past a [Call] charges what was used already, even if there is no room. With Ahead it
// is booked for the moment at which there is room. With Pause it blocks its key for a while.
//
// To admit k at once, take a [storeless.SlidingLog] of Quota k, and give the receipt back when the
// admitted work ends. Work that never ends counts for one Window.
//
// # A counter of your own
//
// Package engine has its parts, and package exacttest tests whether it counts exactly.
package exact
