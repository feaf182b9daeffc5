// SPDX-License-Identifier: Apache-2.0

// Package middleware limits HTTP requests without a store. The server hands each client a signed
// token that carries the client's own counts: its tally. The client sends it back; the server
// verifies it, counts, and signs again. Each process also remembers the highest counts that it has
// seen, in a memory of fixed size.
//
//	limit, err := middleware.New(middleware.Config{
//		Policy:  "contact",
//		Limits:  []middleware.Limit{{Quota: 5, Window: time.Minute}, {Quota: 50, Window: 24 * time.Hour}},
//		Secrets: [][]byte{secret}, // 32 random bytes, the same on every instance
//	})
//	if err != nil {
//		log.Fatal(err) // every problem of the Config, at once
//	}
//	http.Handle("POST /contact", limit.Handler(contact))
//
// # Place
//
// From the outside in: logging and metrics; CORS, with [CORSAllowHeaders] and [CORSExposeHeaders];
// [http.CrossOriginProtection]; [http.MaxBytesHandler]; the limiter; [http.TimeoutHandler], which
// would throw away the token if it stood outside; middleware that recovers from panics; the
// handler.
//
// A request is charged before the handler runs, and stays charged if the handler fails. The body is
// not read. The limiter does not count CORS preflights without credentials, nor the requests that
// Config.Skip names.
//
// # Who is asking
//
// All clients with the same [Identity] share a quota. By default the Identity is the address at the
// other end of the connection ([PeerAddress]): an IPv4 address, or an IPv6 /64, whose /56 and /48
// are limited too. Behind proxies use [ForwardedFor] or [AddressFromHeader]: they believe trusted
// proxies, never the client. docs/operations.md has the line for each platform. For a customer use
// [ValidatedKey], for a user [Principal]. A request without an identity is refused.
//
// Config.Tiers holds further quotas for the same limits, and Config.LimitsFor a customer's own. A
// request costs 1, or what Config.Cost says. [Settle] says afterwards what it really cost, and
// [Refund] gives it back. Limits that [ByOutcome] names count only some outcomes, such as wrong
// passwords. [Concurrency] bounds how many requests are served at once: see docs/api.md.
//
// # What it does not promise
//
// For one policy and one [Identity] this much is admitted in an aligned window. L is the limit, N
// the number of instances (each [Middleware] is one), and C how many of them started within the
// window. With L = 5 and three instances, a client that drops its tokens gets 15.
//
//	echoes the newest token, one request after another, any number of instances  L
//	sends no token, or an old one; no proof of work is configured                (N+C)·L
//	on an exact route  L; in an outage with FailOpen, + (N+C)·max(1, L/Instances)
//
// A client under its limit is not refused. [docs/bounds.md] has every row and the exceptions. Where
// a platform starts an instance for each request, the attacker chooses N: use [Exact] there.
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
// The RateLimit fields follow draft-ietf-httpapi-ratelimit-headers-11 (expired on 24 November
// 2026). A refusal is 429 over a limit, 403 where a proof of work comes first, and 503 in an
// outage. Its body is problem details (RFC 9457), or a page where Accept prefers HTML. A token that
// is wrong in any way is ignored. docs/wire.md specifies all of it.
//
// # Work, waiting, and exact counters
//
// With a [Challenge] a client can buy a tally of its own by proof of work, a pass. The Mode says
// when: [WhenExhausted], [Newcomers], [WhenBusy] or [EveryRequest]. [Middleware.Endpoints] serves
// the scripts for browsers. A visitor whose browser cannot work may wait: see docs/forms.md. With
// Config.Exact a counter that all instances share decides. While it does not answer, [FailOpen]
// decides by token and memory, and [FailClosed] answers 503: see docs/counters.md.
//
// # Trying, changing, watching
//
// Config.Shadow decides and counts but does not refuse. [Middleware.Reconfigure] replaces
// everything while serving, except the policy's name and MaxClients, and keeps what was counted.
// [Middleware.Decide] decides outside of HTTP. Config.OnDecision sees each [Decision], and
// [FromContext] hands it to the handler. The log has at most one line a minute for each kind of
// trouble, and docs/checks.md the cure. Nothing that is logged or printed shows a secret. A printed
// Identity or Decision does not show the client.
//
// [docs/bounds.md]: https://github.com/tallystick/tallystick/blob/main/docs/bounds.md
package middleware
