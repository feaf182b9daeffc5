// Package middleware limits HTTP requests without a store. The server hands each
// client a signed token that carries the client's own counts; the client sends
// it back, the server verifies, counts, and signs again. A fixed-size memory in
// each process bounds clients that do not play along.
//
// # What it does not promise
//
// These are the requests admitted for each policy, identity and aligned window.
// L is the limit, N the number of instances, C how many of them were started within
// the window, F how many tallies the client has bought, and S how many proofs it solves.
// docs/bounds.md has the same table, explains the letters, and says what F costs. An
// address can buy no more than 4·Crowd within an hour on each instance.
//
//	echoes the newest token, one request after another, any number of instances  L
//	the same, B requests at once                                                 L on one instance; at most min(B, N)·L on N
//	sends no token, or an old one; no proof of work is configured                (N+C)·L
//	the same, where work buys more (WhenExhausted)                               (N+C)·L·(1+F)
//	the same, where work comes first (Newcomers)                                 (N+C)·L·F
//	the same, where each request needs a proof (EveryRequest)                    min((N+C)·L, (N+C)·S)
//	waits instead of working, where the waiting room is open                     + (N+C)·max(1, L/5)
//	holds a whole IPv6 /56, or a whole /48                                       (N+C)·8·L, or (N+C)·64·L, before work
//	on an exact route                                                            L; in an outage with FailOpen, + (N+C)·max(1, L/Instances)
//	holds many IPv4 addresses, or unrelated networks                             L for each
//	new while the memory is full, and sends no token                             not limited; where work is offered, one request for a proof
//	sends no token where InsecureNoMemory is set                                 not limited
//	sends CORS preflights (OPTIONS, no credentials, no body)                     not limited: mount handlers with a method
//
// An honest client is one that shows the newest token it was given. A sliding
// window may show up to 2L−1 requests over the worst span of one window's
// length; a bucket of burst b, filled at one request every T, admits b + W/T in
// any span W. Many unrelated addresses are as many identities, each with its own
// quota.
//
// On platforms that start an instance for each concurrent request, the attacker
// chooses N, up to the concurrency cap. There, and wherever a request costs real
// money, use a counter that all instances share: [Exact].
//
// In return no identity under its limit is refused, whatever it shows and
// wherever it is sent, while the instances' clocks agree; but for a network of its
// that is over its own limit, and for a chance below 2⁻²⁸ of being taken for another
// in memory. Where clocks differ, by up to five seconds or a tenth of the window, a
// window is that of the clock that is ahead: a client close to its limit may be refused
// in the seconds after a boundary, and by the right clock one minute of a FixedWindow
// may see almost 2·(N+C)·L, two of them no more than that. A bucket takes the
// difference for debt, and refuses what does not fit beside that much more: with clocks
// that differ by more than T = W/L use a window. A bucket's token from a clock that
// is wrong by more than the largest burst of all tiers takes to empty costs its client
// one wait on each instance, no longer than that, and not the time by which the clock
// was wrong. Figures for each algorithm are in docs/clocks.md.
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
// [New] reports everything that is wrong with a [Config] at once, an error of one
// [ConfigError] for each problem. Nothing is left to fail later, while serving.
//
// # Place
//
// From the outside in: logging and metrics; CORS, so that refusals carry its
// fields, with the lists of [CORSAllowHeaders] and [CORSExposeHeaders];
// [http.CrossOriginProtection], so that pages of other sites cannot spend a
// visitor's quota; the limiter; [http.TimeoutHandler], which throws away the
// header, and with it the token, of whatever is inside of it; middleware that
// recovers from panics; the handler.
//
// Where several limiters are stacked, the response carries the fields of each. One in
// [EveryRequest] belongs inside of any other that asks for work, and two of them
// cannot be stacked: a client brings one proof at a time.
//
// A framework that gives its handlers a writer of its own, as gin does, must have that
// send its Header, Write, WriteString and WriteHeader to the ResponseWriter that the
// limiter hands on, and must run none of them where the limiter has refused. An adapter
// that hands on the request alone gets the fields and the token for POST and its like,
// but none for GET and HEAD: nothing would keep the token out of shared caches there.
//
// Mount them on the routes of an [http.ServeMux] rather than compare paths
// yourself: the mux has decoded and cleaned the path by then.
//
// A request is charged before the handler runs, and stays charged whatever
// becomes of it: if it fails, panics, is hijacked, or the client is gone.
// Charging less for failures would make them free probes. The body is not read.
// A CORS preflight (OPTIONS with Origin and Access-Control-Request-Method, but without
// body, credentials, token or a field that overrides the method) is passed on, neither
// charged nor refused; so is what Config.Skip says.
//
// # What is sent
//
// Each limited response carries, by default:
//
//	RateLimit-Policy      "contact";q=5;w=60, "contact-24h";q=50;w=86400
//	RateLimit             "contact";r=4;t=120, "contact-24h";r=49;t=86400
//	Tallystick-Token      the token, if it says anything new
//	Set-Cookie            the same, as __Host-tallystick-contact; a wait ticket with
//	                      its tally, as __Host-tallystick-contact.wait
//	Cache-Control         no-store, wherever there is a token
//	Tallystick-Challenge  a challenge, on refusals that work can turn
//	Tallystick-Degraded   ?1, on exact routes while the counter does not answer
//	Retry-After           on refusals that may be tried again: whole seconds
//
// In RateLimit, r is the cost that would still pass and t the seconds until r
// rises; on a refusal, until the request would pass, for the limits that refused.
// Both are as this instance sees them: what other instances admitted meanwhile
// is not in r. For buckets, q is the burst and w the time to fill it.
// Retry-After is t of the slowest limit, and up to a tenth and up to 30 seconds
// more, at random, so that those who were refused together do not return
// together. Config.XRateLimit adds the older fields, Config.Quiet takes all but
// Retry-After away.
//
// Clients show the token by the header or by the cookie, as Config.TokenTransport
// permits, and are answered the way they showed it; on both, if they showed none.
// Up to four tokens are looked at, and the one that says most counts. A token is
// at most 512 bytes. Whatever is wrong with one, it is as if absent, and the
// response is the same, byte for byte.
//
// The handler gets a ResponseWriter that keeps exactly the optional interfaces of the
// server's. When the header of the final response is written, the fields are in it,
// whatever has become of the header map: a handler may have cleared it, and a reverse
// proxy does so after each 1xx response of its upstream. A 1xx has none of the fields.
//
// A response that the handler makes publicly cacheable (RFC 9111, or by a field that ends
// in -Cache-Control, RFC 9213, or an older one that some caches hear first) gets none of
// these fields and no token; the memory counts. One response is protected in any case,
// and is no-store: the one with the token that was bought by a proof in this very request,
// which would have to be bought again.
//
// Of GET and HEAD, fields of these names that the handler or an upstream has set are
// replaced. For other methods the fields are set before the handler runs; what it puts in
// the place of Cache-Control then stays if it says no-store, private or no-cache, and its
// lines of RateLimit and RateLimit-Policy stay beside ours. Tokens of other policies and
// cookies always stay.
//
// # Statuses
//
//	429  over a limit, or sold out                type .../http-problem-types#quota-exceeded
//	403  a proof of work is wanted                type .../docs/problems.md#proof-required
//	403  the request costs more than a quota      type .../docs/problems.md#cost-above-quota
//	403  cannot tell who is asking                type .../docs/problems.md#identity-unknown
//	401  or 403, as the identity function says    type about:blank
//	425  TLS early data on an exact route         type about:blank
//	503  the exact counter is down, or overloaded type .../http-problem-types#temporary-reduced-capacity
//	500  Config.Cost was negative                 type about:blank
//
// The body is problem details (RFC 9457), or a page where Accept prefers HTML;
// Config.Refused replaces both. Refusals are never stored by caches.
//
// # Proof of work
//
// With a [Challenge] a client can buy a family of its own by work: a quota beside the
// one that everybody behind its address shares. The Mode says when it is asked:
// [WhenExhausted], once the shared quota is used up; [Newcomers], before the first
// request; [EveryRequest], for each request, and then there are no families. A
// challenge is signed, lives for 10 to 60 seconds, and is bound to policy and identity.
// A proof is good for one family, or one request, on each instance, however often it is
// shown, and must be worth the price at the moment when it is redeemed: Work for the
// first Crowd of families of an address within PriceMemory, doubling with every further
// Crowd, and for nobody any more at four. It is a price on starting over. It tells
// nobody apart, and native code works some twenty times as fast as a browser.
//
// # In the browser
//
// Middleware.Endpoints serves a script with an element, which proves work for the form
// that it is in; [Middleware.ScriptURL] names it:
//
//	<form method="post" action="/contact" enctype="multipart/form-data">
//		…
//		<tally-check endpoint="/tally/contact/">
//			<noscript>This form needs JavaScript.</noscript>
//		</tally-check>
//		<button>Send</button>
//	</form>
//
// When the form is submitted it asks the endpoint whether the next request needs a
// proof. If so it solves, redeems, and then submits the form as the user did, with
// the button, by any method, to any target; the form has no further field, because
// a cookie carries what was bought. In [WhenExhausted] that means that work is done
// only once the shared tally is used up, at the price of a small GET before each
// submission; in [Newcomers] a client works once, in [EveryRequest] each time. The
// form, the element and the endpoint must have one origin, and TokenTransport must not be
// HeaderOnly. form.submit() asks nobody: use form.requestSubmit().
//
// Attributes: auto="focus" begins when the form gets the focus (not for
// EveryRequest, whose proofs keep for seconds), auto="off" leaves it to verify();
// max-work is the highest price in expected hashes, by default 2²⁴; cost is what the
// request costs, if that is not 1; lang, here or on an ancestor, chooses English,
// German or French: en, de, fr; text-idle, -working, -done, -wait (with {} for the
// time), -error and -retry replace texts. A hidden element works too, and shows
// itself to show an error; a disabled one does nothing.
//
// The attribute data-state is idle, working, done or error. The events tally-state
// (detail: state; needed, left, work; error) and tally-progress (detail: done,
// total) bubble. verify() proves now and returns a promise of whether that went
// well; reset() goes back to idle. Style it by its tag and data-state, and by the
// property --tally-accent.
//
//	import { tallyFetch } from "/tally/api/tally.js";
//	const response = await tallyFetch("/api/orders", { method: "POST", body });
//
// tallyFetch is fetch, but echoes tokens, and where a refusal comes with a challenge
// it solves it and sends the request again. prove(endpoint, { cost }) does what the
// element does, solve(challenge) returns a proof.
//
// An API of another origin needs [CORSAllowHeaders] and [CORSExposeHeaders]. The script
// is better not taken from there: browsers start no worker from another origin, and the
// page's own thread would have to work. Copy tally.js, solver.js and tally.css, as
// Endpoints serves them, into one directory of the page's own site. The copies change
// with the version of this package.
//
// A token or a proof in a field is for one origin, but browsers send fields along with a
// redirect, wherever it leads. So tallyFetch follows no redirect of another origin, not
// even within that: it throws a TypeError whose reason is "redirected". Redirects of the
// page's own origin it follows as long as they stay there. To another origin it follows
// them only without a field: with header: true never, and otherwise not in the
// request that brings a proof, so prove first where a server sends its clients elsewhere. A
// redirect mode in init is obeyed as it stands: with "follow" the fields go to any
// origin that the server names and that permits them.
//
// # Exact routes
//
// With Config.Exact a counter that all instances share decides, and tokens and memory
// stand in for it in an outage: [FailOpen] admits by them, each instance its part of
// the quota; [FailClosed] answers 503. A call has a Deadline. Five failures in a row
// open a breaker, which lets a probe a second through. What meets its deadline in a
// crowd, while the counter answers others, is load: 503 whatever the choice, so that
// nobody can flood the counter to get into the fallback. A request that was answered 503
// at its deadline may have been charged. A refusal is remembered until its time, by the
// instance and by the client's token, and costs no further call; those responses tell
// no RateLimit. What is decided in an outage sends nobody away for longer than a minute
// and its jitter, and says Tallystick-Degraded: ?1. [Refund] gives a charge back, and
// [Middleware.CallFor] lets a program spend the same quota outside of requests.
//
// # Without JavaScript
//
// Where a Challenge asks for work, people whose browser cannot work may wait
// instead: the refusal of a page (Accept prefers HTML) sets a cookie with a wait
// ticket, which opens after five seconds, and later where the waiting room is full.
// From then on, for ten minutes, it admits the same request to that lane: one more
// family that everybody of the identity shares, with a part of each quota,
// max(1, L/5) by default. Requests that need no lane do not use it.
//
// A ticket is signed, for one policy and identity, and is no proof of anything: it
// can be shown again, by many at once, and anybody can have any number.
// What bounds them together is the lane's quota, counted in memory and in a token
// like any other: (N+C)·max(1, L/5) on top of what the policy admits otherwise, and
// Net56Factor and Net48Factor times that for a whole IPv6 /56 and /48. Own families and their
// prices are not concerned. While the memory is full, nobody is let in whom it
// cannot count.
//
// In [Newcomers] that is what an address has for nothing, where without a lane it
// would have nothing; WaitingRoom.Closed closes it. [EveryRequest] has a lane only if
// WaitingRoom.Share asks for one: it is for requests that should cost their
// sender something, also one that starts instances, and with them N, at will.
// Without memory, or without cookies, there is none.
//
// A page that was refused a GET loads itself anew when the wait is over. A form
// would be lost by that: its page asks to go back and send it again, or, with
// [Interstitial] as Config.Page, holds what was filled in. Neither needs a script or
// a style. Decision.RoomWait tells a Page of the program's own how long the wait is.
// Browsers that keep no cookies cannot use the lane.
//
// # Identities
//
// An [Identity] is who the server thinks is asking, and everybody with the same
// one shares a quota. By default it is the connection's other end
// ([PeerAddress]): an IPv4 address, or an IPv6 /64, whose /56 and /48 are limited
// as well. Behind proxies it is what trusted ones say ([ForwardedFor],
// [Forwarded], [AddressFromHeader]), never what the client says; docs/platforms.md
// has the line for each platform. For customers it is a key that the
// program has validated ([ValidatedKey]), for users a [Principal]. A token is
// bound to its identity, and is as if absent for any other.
//
// If it cannot be told who is asking, the request is refused: a shared blank
// identity would let strangers spend each other's quota. That is so for servers
// on Unix sockets and behind adapters that leave RemoteAddr empty, unless they have an
// identity function of their own, or [InsecureNoPeer].
//
// # Tiers
//
// Config.Tiers holds further quotas for the same limits, and the identity's Tier
// chooses among them at each request. Counts say what was used, so a client that
// changes tier keeps them, and a new quota applies at once.
//
// # Trying and changing
//
// Config.Shadow decides, counts and tells, but never refuses; the [Decision] says
// what would have happened. The fields are sent. Challenges are not, so that in
// [Newcomers] and [EveryRequest] all who bring no proof are counted as refused:
// nobody knows who would have worked. [Middleware.Reconfigure] replaces everything
// while serving but the policy's name and the size of the memory, and keeps what was
// counted. To rotate secrets, add the new one last everywhere, then move it first
// everywhere, then drop the old one after [Middleware.TokenLife]: nobody's count
// changes.
//
// # What is seen
//
// Config.OnDecision sees every decision once, and [FromContext] tells the handler
// of it. The log gets at most one line a minute for each of: nobody can be told;
// a trusted proxy names no client, or with some requests only; a client of a private
// address names others, as proxies do; one of a public address names many; an
// identity has an unknown tier; a cost is negative; the memory is full; a challenge
// cannot be made, or names URLs where Endpoints was never mounted; the exact counter
// has failed a request, has stopped answering, answers again. No line holds anything
// that a client sent, or a secret; but those about the counter hold its own error, and
// that about a tier the name that the identity function gave.
//
// No error shows a secret, nor does a Config or Middleware that is printed. Package fmt
// calls no method of what lies in an unexported field, though: do not print a struct
// that holds a Config in one.
//
// A token can be read by its client: policy, counts, expiry, and a keyed hash in
// place of the identity.
//
// # Sources
//
// RFC 9110 (HTTP), RFC 9111 (caching), RFC 9213 (targeted cache control), RFC
// 6585 (429), RFC 9457 (problem details), RFC 9651 (structured fields), RFC 7239
// (Forwarded), RFC 6265 and its revision (cookies), RFC 7519 and 8725 (JWT), the
// Fetch standard (CORS), and draft-ietf-httpapi-ratelimit-headers-10.
package middleware
