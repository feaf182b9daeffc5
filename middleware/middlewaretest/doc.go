// SPDX-License-Identifier: Apache-2.0

// Package middlewaretest is for the tests of programs that limit requests with package
// middleware: a clock, clients, and clients that have used up what they have.
//
// The program takes its clock as an argument, and its test moves it:
//
//	clock := middlewaretest.NewClock()
//	app := newApp(clock.Now) // which gives it to Config.Now
//	ada := middlewaretest.Browser(app, "203.0.113.1")
//
// [Spend] uses up a client's quota. [TokenAt] and [OwnTokenAt] make the token of a client
// that has used some of it. [Prove] and [Buy] work, as clients do; [Quick] makes that cheap.
//
// # What it does not do
//
// It asserts nothing, and forges nothing: every token and every refusal comes from a real
// decision of a real [middleware.Middleware]. So it makes only states that a client can be
// in, and never a count above the quota.
//
// Nothing here knows a counter of Config.Exact. For tests, package exact has a counter in
// memory, and [github.com/tallystick/tallystick/middleware/exact/exacttest] has a clock for
// it.
//
// Clients call the handler on the goroutine of the test, without a network: a response is
// there when the handler has returned. For hijacked connections, trailers and responses that
// arrive bit by bit, use an [net/http/httptest.Server].
//
// # Time
//
// A [Clock] is for tests that step from one moment to another. In a bubble of
// [testing/synctest] leave Config.Now alone: the time there is virtual already, and
// time.Sleep moves it. Do the same to test what waits by timers, such as Config.Concurrency,
// or a client that obeys Retry-After.
//
// # Clients in other languages
//
// The program middlewaretest/cmd/clienttest tells whether a client does its part.
package middlewaretest
