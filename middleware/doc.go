// SPDX-License-Identifier: Apache-2.0

// Package middleware limits HTTP requests without a store. The server hands each client a signed
// token that carries the client's own counts: its tally. The client sends it back; the server
// verifies it, counts, and signs again. Each process also remembers the highest counts that it has
// seen, in a memory of fixed size. So a client that drops or replays its token gets at most one
// quota from each process.
//
// # What it does not promise
//
// Without an exact counter there is no one count for all instances. For one policy and one
// [Identity] it admits this much in an aligned window. L is the limit, N the number of instances
// (each [Middleware] is one), and C how many of them started within the window.
//
//	echoes the newest token, one request after another, any number of instances  L
//	sends no token, or an old one; no proof of work is configured                (N+C)·L
//	on an exact route  L; in an outage with FailOpen, + (N+C)·max(1, L/Instances)
//
// In return a client under its limit is not refused. [docs/bounds.md] has every row, what work
// buys beside this, and the exceptions. Where a platform starts an instance for each request, the
// attacker chooses N: use [Exact] there, and wherever a request costs money.
//
// # Use
//
//	limit, err := middleware.New(middleware.Config{
//		Policy:  "contact",
//		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
//		Secrets: [][]byte{secret}, // 32 random bytes, the same on every instance
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	http.Handle("POST /contact", limit.Handler(contact))
//
// [New] reports everything that is wrong with a [Config] at once, one [storeless.ConfigError] for each
// problem. Nothing is left to fail later, while serving.
//
// # Place
//
// From the outside in: logging and metrics; CORS, with [CORSAllowHeaders] and
// [CORSExposeHeaders]; [http.CrossOriginProtection], so that pages of other sites cannot spend a
// visitor's quota; [http.MaxBytesHandler]; the limiter; [http.TimeoutHandler], which would throw
// away the token if it stood outside; middleware that recovers from panics; the handler. Limiters
// can be stacked, but only one may be in [EveryRequest].
//
// A request is charged before the handler runs, and stays charged if the handler fails or the
// client is gone. The body is not read. A CORS preflight without credentials is passed on
// uncounted, and so is what Config.Skip names.
//
// # Who is asking
//
// All clients with the same [Identity] share a quota. By default that is the address of the peer
// ([PeerAddress]): an IPv4 address, or an IPv6 /64, whose /56 and /48 are limited too. Behind
// proxies it is what trusted ones say ([ForwardedFor], [AddressFromHeader]), never
// what the client says. For customers it is a key that the program has validated
// ([ValidatedKey]), for users a [Principal]. A request without an identity is refused:
// docs/operations.md has the line for each platform.
//
// Config.Tiers holds further quotas for the same limits, and Config.LimitsFor knows a customer's
// own numbers. A request costs 1, or what Config.Cost or [Middleware.HandlerCost] says. [Settle]
// says afterwards what it really cost, and [Refund] gives it back. Limits that [ByOutcome] names
// count some outcomes alone, such as wrong passwords. [Concurrency] bounds how many requests are
// served at once. docs/api.md has all of these.
//
// # What is sent
//
// Each limited response carries, by default:
//
//	RateLimit-Policy      "contact";q=5;w=60, "contact-24h";q=50;w=86400
//	RateLimit             "contact";r=4;t=120, "contact-24h";r=49;t=144000
//	Tallystick-Token      the token, if it says anything new
//	Set-Cookie            the same, as __Host-tallystick-contact
//	Cache-Control         no-store, with a token, unless the handler says private
//	Tallystick-Challenge  a challenge, on refusals that a proof of work can turn
//	Tallystick-Degraded   ?1, on exact routes while the counter does not answer
//	Retry-After           on refusals that may be tried again: whole seconds
//
// The RateLimit fields follow draft-ietf-httpapi-ratelimit-headers-11 (expired on 24 November 2026): r is the cost that
// would still pass, as this instance sees it. Within t seconds a client can use no more than r; on a refusal, t is the
// wait. Config.Fields chooses other spellings, and Config.Quiet hides numbers. A token that is wrong in any way is as
// if absent, and the response is the same, byte for byte.
//
// A refusal is 429 over a limit; 403 where a proof of work comes first (429 for a page), where the
// request costs more than a quota, or where the server cannot tell the client; 401, 403 or 503 as
// the identity function says; 425 for TLS early data on an exact route; 503 where the exact counter
// is down or overloaded; 500 for a negative cost. The body is problem details (RFC 9457), or a page
// where Accept prefers HTML. docs/wire.md specifies all of it.
//
// The fields stand in the final response, even if the handler clears the header map. A response
// that shared caches may store carries none of them, and no token. The handler's ResponseWriter
// keeps exactly the optional interfaces of the server's.
//
// # Work, waiting, and exact counters
//
// With a [Challenge] a client can buy a tally of its own by proof of work. It is called a pass, and
// stands beside the shared tally, which all clients behind the address have for nothing. The Mode
// says when: [WhenExhausted], [Newcomers], [WhenBusy] or [EveryRequest]. [Middleware.Endpoints]
// serves the scripts that do it in a browser. A visitor whose browser cannot work may wait: the
// waiting room is one further tally of the address, with a fifth of each quota, unless
// NoWaitingRoom is set. docs/forms.md has both.
//
// With Config.Exact a counter that all instances share decides. If it does not answer, the choice
// is [FailOpen], by token and memory, or [FailClosed], 503. Load is 503 whatever the choice, so
// that flooding the counter is no way past it. docs/counters.md has the counters.
//
// # Trying, changing, watching
//
// Config.Shadow decides and counts but does not refuse. [Middleware.Reconfigure] replaces
// everything while serving, except the policy's name and MaxClients, and keeps what was counted.
// [Middleware.Decide] decides outside of HTTP, by the same limits.
//
// Config.OnDecision sees each [Decision], [FromContext] hands it to the handler, and
// [Middleware.Stats] has what to watch. The log has at most one line a minute for each kind of
// trouble, and docs/checks.md the cure. Nothing that is logged or printed shows a secret, and a
// printed Identity or Decision does not show the client. But fmt calls no method of an unexported
// field: do not print a struct that holds one of them so.
//
// [docs/bounds.md]: https://github.com/tallystick/tallystick/blob/main/docs/bounds.md
package middleware
