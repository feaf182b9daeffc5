// SPDX-License-Identifier: Apache-2.0

// Package middleware limits HTTP requests without a store. The server hands each client a signed
// token that carries the client's own counts. The client sends it back; the server verifies it,
// counts, and signs again. A memory of fixed size in each process bounds clients that do not play
// along.
//
// # What it does not promise
//
// These are the requests admitted for each policy, identity and aligned window. L is the limit, N
// the number of instances (each [Middleware] is one), C how many of them were started within the window, F how many
// bought tallies the client can show, q the share that each instance but its home admits of such a tally (L unless
// Config.Instances is set; its home is the one whose challenge was solved), and S how many proofs it shows. docs/bounds.md has
// the same table, explains the letters, and says what F costs.
//
//	echoes the newest token, one request after another, any number of instances  L
//	the same, B requests at once                                                 (N+C)·L; if each costs 1 and it keeps the token of the request sent last, at most B·L + B−1
//	sends no token, or an old one; no proof of work is configured                (N+C)·L
//	the same, where work buys more (WhenExhausted)                               (N+C)·L + F·(L + (N+C−1)·q)
//	the same, where work comes first (Newcomers)                                 F·(L + (N+C−1)·q)
//	the same, where each request needs a proof (EveryRequest)                    min((N+C)·L, (N+C)·S)
//	waits instead of working, where the waiting room is open                     + (N+C)·max(1, L/5)
//	holds a whole IPv6 /56, or a whole /48                                       (N+C)·8·L, or (N+C)·64·L, before work
//	the same, and works                                                          + F·(L + (N+C−1)·q), where F is what 2 addresses can buy, or what 8 can
//	at once, with Concurrency (MaxHold H, the oldest request has the age A)      N·(1+F)·Max·(1 + A/H); with CancelHeld N·(1+F)·Max
//	the same on an exact route                                                   Max; in an outage with FailOpen N·Max
//	on an exact route                                                            L; in an outage with FailOpen, + (N+C)·max(1, L/Instances)
//	sends no token, or an old one, where UnfairCeiling is set                    (N+C)·L/Instances: where N is Instances, L·(1 + C/N); as much again for each tally that it buys
//	honest there, and the balancer keeps it on one instance                      L/Instances: it is refused under its limit
//	works, where that comes first only while an instance is busy (WhenBusy)  (N+C)·L + F·(L + (N+C−1)·q), whatever the load was
//	holds many IPv4 addresses, or many IPv6 /48                                  (N+C)·L for each address, (N+C)·64·L for each /48, before work
//	the same, and proves no work, with WhenBusy and BusyPerSecond R, in t seconds  all together (N+C)·R·(t + 10), and one each time that an instance gets busy; beside the waiting room
//	has its costs settled afterwards                                             + what its requests under way were estimated too low, for every algorithm
//	fails, where a limit counts failures alone                                   (N+C)·L failures; L requests under way at once on an instance
//	new while the memory is full                                                 (N+C)·L; may be refused early
//	with FixedWindow, while clocks differ by the permitted skew                  2·(N+C)·L − 1 in one window of the true time
//	sends no token where InsecureNoMemory is set                                 not limited
//	sends CORS preflights (OPTIONS, no credentials, no body)                     not limited: mount handlers with a method
//
// An honest client shows the newest token it was given. A sliding window may show up to 2L−1
// requests over the worst span of one window's length. A bucket of burst b, filled at one request
// every T, admits b + W/T in any span W. How many tallies an address buys grows with the
// logarithm of its work, and with what leaks, 4·Crowd in PriceMemory, on each instance. Where a
// platform starts an instance for each concurrent request, the attacker chooses N. There, and
// wherever a request costs real money, use a counter that all instances share: [Exact].
//
// # What it promises
//
// A client under its limit is not refused, whatever it shows and wherever it is sent, while the
// clocks of the instances agree. There are these exceptions: its bought tally is at home on another
// instance, and it has used its share on this one (then it is offered work, for a further tally); with
// WhenBusy it has bought none, and the instance is busy (then it is offered work); its
// IPv6 network is over the network's own limit; it is new to an instance whose memory is full
// (docs/memory.md); or two clients share a hash in memory (a chance below 2⁻²⁸). With UnfairCeiling that is
// given up.
//
// Clocks may differ by up to five seconds or a tenth of the window. Then a client close to its
// limit may be refused in the seconds after a boundary. A bucket takes the difference for debt: use a window if your clocks do not
// agree to within T. docs/clocks.md has figures.
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
// [New] reports everything that is wrong with a [Config] at once, one [ConfigError] for each
// problem. Nothing is left to fail later, while serving.
//
// # Place
//
// From the outside in: logging and metrics; CORS, with [CORSAllowHeaders] and
// [CORSExposeHeaders]; [http.CrossOriginProtection], so that pages of other sites cannot spend a
// visitor's quota; [http.MaxBytesHandler]; the limiter; [http.TimeoutHandler], which throws away
// the token of everything inside it; middleware that recovers from panics; the handler. Limiters
// can be stacked; only one may be in [EveryRequest]. docs/operations.md has the reasons, and what
// frameworks must do.
//
// A request is charged before the handler runs. It stays charged if the handler fails or panics,
// or the client is gone: a lower charge for failures would make them free probes. The body is not
// read. A CORS preflight without credentials, and what Config.Skip names, is passed on uncounted.
//
// # Known afterwards, and at once
//
// [Settle] says what a request has really cost: model tokens, bytes, rows. What is too much comes
// back; what is too little is charged past the limit. [Refund] gives all of it back. A limit that
// [ByOutcome] names counts some outcomes alone, such as wrong passwords: a request holds its cost
// until the status is known, in memory only, and is charged unless that is free or [NoCharge] says
// so. Unknown is charged, and so is what takes more than ten seconds. docs/outcomes.md has more.
//
// With [Concurrency] no more than Max requests of a tally are served at once, and a few more may
// wait in line. A request counts until its handler ends, or its hijacked connection, and for
// MaxHold at most: then it goes on uncounted, or ends. docs/operations.md says what to choose.
//
// # What is sent
//
// Each limited response carries, by default:
//
//	RateLimit-Policy      "contact";q=5;w=60, "contact-24h";q=50;w=86400
//	RateLimit             "contact";r=4;t=120, "contact-24h";r=49;t=144000
//	Tallystick-Token      the token, if it says anything new
//	Set-Cookie            the same, as __Host-tallystick-contact; a wait ticket with
//	                      its tally, as __Host-tallystick-contact.wait
//	Cache-Control         no-store, with a token, unless the handler says private
//	Tallystick-Challenge  a challenge, on refusals that a proof of work can turn
//	Tallystick-Degraded   ?1, on exact routes while the counter does not answer
//	Retry-After           on refusals that may be tried again: whole seconds
//
// r is the cost that would still pass, and t the seconds until r rises; on a refusal, the seconds
// until the request would pass. Both are as this instance sees them. Retry-After is t of the
// slowest limit, plus up to a tenth and up to 30 seconds at random. Config.Quiet takes
// away what tells of the quota.
//
// There is no RFC for the RateLimit fields. They are those of
// draft-ietf-httpapi-ratelimit-headers-11, whose bytes are those of the two drafts before it; what
// is new in it is what t means: within so many seconds a client can use no more than r. It is
// named here and nowhere else, and followed until there is an RFC. Config.Fields chooses the
// spelling of older drafts, X-RateLimit or X-Quota, beside or instead.
//
// Clients show the token in the header or in the cookie, as Config.TokenTransport permits, and
// are answered the way they showed it, or both ways if they showed none. A token that is wrong in
// any way is as if absent, and the response is the same, byte for byte. docs/wire.md specifies
// all of this, and the RFCs, for clients in other languages.
//
// The handler gets a ResponseWriter with exactly the optional interfaces of the server's. The
// fields are in the final response, even if the handler or a reverse proxy has cleared the header
// map. For caches there is one rule, whatever the method. A response that the handler lets shared
// caches serve (RFC 9111, RFC 9213) gets none of the fields and no token; the memory counts. If it
// says private or no-store, and nothing to the contrary, that stays, and the token stands beside
// it: browsers store private pages, and what comes from there is no request and counts nowhere.
// Every other response with a token becomes no-store, one that says no-cache too: shared caches
// may store that. So does the one with a token that was bought in this very request.
//
// A refusal is 429 over a limit, or where no tally is for sale; 403 where a proof of work comes
// first, but 429 for a page that is asked for by GET, which search engines would drop for a 403;
// 403 where the request costs more than a quota, or where the server cannot tell who is
// asking; 401 or 403 as the identity function says; 425 for TLS early data on an exact route; 503
// where the exact counter is down or overloaded; 500 for a negative cost. The body is problem
// details (RFC 9457), of the types in docs/problems.md, or a page where Accept prefers HTML.
// Config.RefusalHandler replaces both, Config.PageHandler the page. Caches never store refusals.
//
// # Proof of work
//
// With a [Challenge] a client can buy a tally of its own by work: a quota beside the one that
// everybody behind its address shares. The Mode says when: [WhenExhausted], once the shared quota
// is used up; [Newcomers], before the first request; [WhenBusy], the one while this instance is
// calm, the other while it is busy; [EveryRequest], for each request, and then
// no tallies are sold. A challenge is bound to policy and identity. It lives for 10 seconds, and
// longer for a high price: at most five minutes, or one in EveryRequest. A proof is good for one
// tally, or one request, on each instance, however often it is shown. It must be worth half the
// price at the moment it is redeemed. The price begins at Work and doubles with each Crowd of
// tallies that the address has bought; four Crowds leak away in PriceMemory. Nothing is sold out
// below 2³² hashes. Work is a price on starting over. It does not tell people from programs, and
// native code works some twenty times as fast as a browser. docs/price.md has figures.
//
// A tally that is bought is a pass for one PriceMemory, or a day's quota would be for sale every
// hour. Of a limit with a longer window it has the part that falls on PriceMemory, and no less
// than the largest quota of a shorter limit, for all of its life: of 5 a minute and 50 a day a
// pass has 5. A client that needs more buys the next. A request that costs more than a pass has
// is charged to the shared tally, in Newcomers too. docs/bounds.md has the rule, and how long a
// pass lives.
//
// [Middleware.Endpoints] serves a script, which [Middleware.ScriptURL] names. Its element,
// tally-check, proves work for the form it is in. Its tallyFetch is fetch that echoes tokens and
// solves challenges. Form, element and endpoint must have one origin, and TokenTransport must not
// be HeaderOnly. docs/browser.md has the rest, and pages of other origins.
//
// # The waiting room
//
// Where work is asked for, people whose browser cannot work may wait instead. A page that is
// refused (Accept prefers HTML) sets a cookie with a wait ticket; the element fetches one. The
// ticket opens after five seconds or, where the waiting room is full, at a random time after it
// has space again. From then on, for ten minutes, it admits to one further tally that everybody
// of the identity shares, with a part of each quota: max(1, L/5) by default. One ticket lets in a
// quarter of that, at least one request, on each instance, and brings the next. A ticket proves
// nothing, and anybody can have many: the bound is the room's quota. In [Newcomers] the room is
// all that an address has for nothing; WaitingRoom.Closed closes it. In [EveryRequest] there is
// one only if WaitingRoom.Share asks for it; without memory or cookies there is none. With
// [Interstitial] as Config.PageHandler the page of a refused form keeps what was typed.
// docs/browser.md has more.
//
// # Exact routes
//
// With Config.Exact a counter that all instances share decides. Tokens and memory stand in for it
// in an outage: with [FailOpen] each instance admits its part of the quota; with [FailClosed] it
// answers 503. Load is no outage, and is answered 503 whatever the choice, so that nobody can
// flood the counter to get into the fallback. A quarter of the places is for identities that are
// no address. A request that was answered 503 at its deadline may have been charged.
// [Middleware.Check] spends the same quota outside of requests. docs/exact.md has the rest.
//
// # Identities and tiers
//
// All clients with the same [Identity] share a quota. By default it is the connection's other end
// ([PeerAddress]): an IPv4 address, or an IPv6 /64, whose /56 and /48 are limited too. Behind
// proxies it is what trusted ones say ([ForwardedFor], [Forwarded], [AddressFromHeader]), never
// what the client says; docs/platforms.md has the line for each platform. For customers it is a
// key that the program has validated ([ValidatedKey]), for users a [Principal]. For any other
// identity a token is as if absent; but one that an address has bought goes along to the next,
// unless BindOwn is set. A request without an identity is refused, because a shared blank
// identity would let strangers spend each other's quota. Servers on Unix sockets, and adapters
// that leave RemoteAddr empty, need an identity function of their own, or [InsecureNoPeer].
//
// Config.Tiers holds further quotas for the same limits; the identity's Tier chooses among them
// at each request. A client that changes tier keeps its counts, and a new quota applies at once.
// Config.LimitsFor is a function that knows a customer's own numbers; it is never asked about an
// address. docs/tenants.md has both, for ten thousand tenants. A request costs 1, or what
// Config.Cost or [Middleware.HandlerCost] says.
//
// # Trying, changing, watching
//
// Config.Shadow decides, counts and sends the fields, but refuses and challenges nobody; the
// [Decision] says what would have happened. Shadow of a [Limit] does so for one number, beside
// those in force. [Middleware.Reconfigure] replaces everything while
// serving, except the policy's name and MaxClients, and keeps what was counted, also while
// secrets are rotated: docs/operations.md has the steps.
//
// [Middleware.Check], Decide and Peek decide outside of HTTP, by the same limits: log-ins by user
// name, calls, messages. docs/decide.md has them.
//
// Config.OnDecision sees every decision once, [FromContext] tells the handler of it, and
// [Middleware.Stats] has what to watch. The log gets at most one line a minute for each kind of
// trouble, none with a secret or anything that a client sent. Each line has a code that does not
// change, and docs/checks.md has the cure of each.
//
// No error shows a secret, and no Config or Middleware that is printed does; no Identity or
// Decision shows who was asking. But package fmt calls no method of what lies in an unexported
// field: do not print a struct that holds one of them so. The client can read its token: policy,
// counts, expiry, and a pseudonym.
package middleware
