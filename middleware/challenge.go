// SPDX-License-Identifier: Apache-2.0

package middleware

import "time"

// A Challenge says when a client is offered work, and at which price. It is
// plain data, like [Config].
type Challenge struct {
	_ [0]func()

	// Mode says when. Default: [WhenExhausted].
	Mode Mode

	// BusyPerSecond and BusyAtOnce are the load from which this instance is busy, for [WhenBusy]: admitted requests per
	// second, in the mean over some ten seconds, or HTTP requests under way in the handler. Only requests of this
	// policy count that were admitted and cost more than 0. The instance is calm again when both are below half, after
	// ten seconds at the earliest. Each address, IPv6 /48, key or bought tally contributes at most a sixteenth, and at
	// least one request. Each IPv4 /16 or IPv6 /29 contributes at most a quarter, and from there it is busy for its own
	// clients. Default: 0, not set. Permitted: 1 to 1000000 in WhenBusy, which needs one of them. Prohibited in the
	// other modes.
	BusyPerSecond, BusyAtOnce int64

	// Work is the price in expected hashes: of a tally while few are sold to its identity or, in
	// [EveryRequest], of each request. Our clients refuse more than 2²⁸ unless they are told to
	// pay it. A challenge lives as long as its price needs, from ten seconds to five minutes, and
	// one of EveryRequest a minute at most: a slow client must be done by then. Default: 262144, a
	// third of a second on a slow phone. Permitted: 16 to 2²⁹.
	Work int64

	// NonceOnly asks for no work at all, only for a round trip within ten
	// seconds. Permitted in [EveryRequest] alone: a tally that costs nothing
	// is no limit. A neighbour can then use up the quota of its address for nothing.
	NonceOnly bool

	// Crowd is how many honest clients one address is expected to hide, which may all come at
	// once. With every Crowd of tallies that it has bought, and that have not leaked, the price
	// doubles; in between it rises evenly. An IPv6 /56 is expected to hide two Crowds and a /48
	// eight, and the dearest of the three counts. A proof is good until the price has risen by more
	// than 7/8: with a Crowd of 1 any other sale in between costs it. Default: 64. Permitted: 1 to 255.
	Crowd int64

	// SalesPerHour is how many sales to an address leak away in an hour, evenly. The price comes down with them. Each
	// instance, or all [Config.Peers] together, serves this many newcomers behind the address an hour at the price of
	// Work. A higher value lets an attacker buy more. A lower one makes it cheaper to price others out; and since a
	// sale keeps a place in memory until it has leaked, it needs less work to fill all places, and then nothing more is
	// sold. Default: 32. Permitted: 1 to 100000.
	SalesPerHour int64

	// PassTime is the time that a bought tally is for: of a limit with a longer window it has only
	// the part that falls on one PassTime, and it lives for two of the longest other windows, an hour
	// at least (docs/bounds.md). No price depends on it. Default: one hour. Permitted: whole seconds,
	// from one minute to one day.
	PassTime time.Duration

	// BindOwn makes an own tally good only for the address that bought it. Without it,
	// a phone keeps its tally as it changes networks. The tallies of API keys and
	// principals are always bound.
	BindOwn bool

	// WaitingRoom is the part of each quota, 1/WaitingRoom of it and at least 1, that an identity
	// may use without work, after a wait, on top of the quotas: for people whose browser cannot
	// work, see docs/forms.md. NoWaitingRoom is for routes where nothing may be had without work.
	// Default: 5; no room in [EveryRequest]. [HeaderOnly] and InsecureNoMemory prohibit one.
	// Permitted: 1 to 2147483647.
	WaitingRoom   int64
	NoWaitingRoom bool

	// Path is where browsers find [Middleware.Endpoints], such as "/tally/contact/"; refusals
	// name the URLs below it. Where a proxy, or http.StripPrefix, takes away its beginning,
	// mount the endpoints at the rest. A handler of the policy that is asked for one of these
	// URLs, because it is around a whole site, answers it too. Default: none. Permitted: an
	// absolute path that ends in a slash.
	Path string
}

// Mode says when a client is challenged.
type Mode uint8

const (
	// WhenExhausted lets the clients of an address share its quota, and offers
	// each a tally of its own when that is used up. A client that has one is charged
	// there first, and on the shared tally when its own is used up.
	WhenExhausted Mode = iota

	// WhenBusy is WhenExhausted while this instance is calm, and Newcomers while it is
	// busy: see [Challenge].BusyPerSecond. Tallies that were bought are good all the
	// time, and the shared one keeps its count: a token of it shown meanwhile is as if
	// absent, and good again when the instance is calm.
	WhenBusy

	// Newcomers has no shared tally: a client without a tally of its own proves
	// work first. For forms and sign-up.
	Newcomers

	// EveryRequest requires a proof with each request, which is charged to the shared
	// tally. A proof buys one request, on each instance at most, and one of all [Config.Peers].
	EveryRequest
)
