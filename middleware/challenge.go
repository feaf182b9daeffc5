package middleware

import "time"

// A Challenge says when a client is offered work, and at which price. It is
// plain data, like [Config].
type Challenge struct {
	_ [0]func()

	// Mode says when. Default: [WhenExhausted].
	Mode Mode

	// Work is the price in expected hashes, of the first Crowd tallies of an
	// identity or, in [EveryRequest], of each request. Default: 262144, a third
	// of a second on a slow phone. Permitted: 16 to 2²⁹.
	Work int64

	// NonceOnly asks for no work at all, only for a round trip within ten
	// seconds. Permitted in [EveryRequest] alone: a tally that costs nothing
	// is no limit.
	NonceOnly bool

	// Crowd is how many honest clients one address is expected to hide. With
	// every further Crowd of tallies the price doubles, and at most four
	// Crowds are sold to an address within PriceMemory. Default: 8. Permitted:
	// 1 to 255.
	Crowd int64

	// PriceMemory is how long a sale is remembered, at least, and what a tally is a pass
	// for: of a limit with a longer window it has only the part that falls on PriceMemory
	// (see the package documentation). Default: one hour. Permitted: whole seconds, from
	// one minute to one day.
	PriceMemory time.Duration

	// BindOwn makes an own tally good only for the address that bought it. Without it,
	// a phone keeps its tally as it changes networks. The tallies of API keys and
	// principals are always bound.
	BindOwn bool

	// SurgeBudget is how many tallies this instance may sell in a minute before
	// the work of every challenge begins to rise. Prohibited in [EveryRequest],
	// which sells none, and with InsecureNoMemory. Default: 0, never.
	SurgeBudget int64

	// WaitingRoom is for people whose browser cannot work; see the package
	// documentation. It comes on top of the quotas. Default: a fifth of each quota;
	// none in [EveryRequest], with HeaderOnly and with InsecureNoMemory.
	WaitingRoom WaitingRoom

	// Path is where the program has mounted [Middleware.Endpoints], such as
	// "/tally/contact/"; refusals name the URLs below it. Default: none.
	// Permitted: an absolute path that ends in a slash.
	Path string
}

// A WaitingRoom says what a client may use that waits instead of working.
type WaitingRoom struct {
	// Share is the part of each quota, one in so many and at least 1, that an identity
	// may use without work, after a wait. Default: 5; no room in [EveryRequest]. HeaderOnly
	// and InsecureNoMemory prohibit one. Permitted: 1 to 2147483647.
	Share int64

	// Closed is for routes where nothing may be had without work. Prohibited with Share.
	Closed bool
}

// Mode says when a client is challenged.
type Mode uint8

const (
	// WhenExhausted lets the clients of an address share its quota, and offers
	// each a tally of its own when that is used up.
	WhenExhausted Mode = iota

	// Newcomers has no shared tally: a client without a tally of its own proves
	// work first. For forms and sign-up.
	Newcomers

	// EveryRequest requires a proof with each request, which is charged to the shared
	// tally. A proof buys one request, on each instance at most.
	EveryRequest
)
