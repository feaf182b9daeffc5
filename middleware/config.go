// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/middleware/peers"
)

// A Config describes one policy. It is plain data: [New] copies it, checks it and never looks
// at it again. Most programs set Policy, Limits and Secrets alone. Advanced has what answers an
// attack or a rare need. [docs/api.md] and the other pages explain each.
//
// [docs/api.md]: https://github.com/tallystick/tallystick/tree/main/docs
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Policy names the policy on the wire. Permitted: 1 to 32 of a-z, 0-9 and "-". Required.
	// Two policies of one program need different names.
	Policy string

	// Limits are decided together: if one refuses, none is charged. Give each a Name if
	// they may ever change: the count follows it. Permitted: 1 to 8, with Exact 1 to 7. Required.
	Limits []Limit

	// Secrets sign the tokens: the first signs, all verify. All instances need the same ones. To rotate,
	// add the new one last everywhere, then move it first everywhere, then drop the old one after
	// [Stats].TokenLife. Permitted: 1 to 8 different ones of at least 32 random bytes. Required.
	Secrets [][]byte

	// Identity tells who is asking. Default: [PeerAddress]. Behind a proxy use
	// [ForwardedFor] or [AddressFromHeader]; for customers, [ValidatedKey].
	Identity IdentityFunc

	// Challenge offers work to clients that the limits refuse, or that have nothing to show.
	// Default: nil, never. Prohibited with Exact.
	Challenge *Challenge

	// Exact makes the limits exact across all instances, by a counter that they share.
	// Default: nil, token and memory decide.
	Exact *Exact

	// Peers has all processes of a group count together: a client that drops its tokens gets a little more than L,
	// instead of L from each; see docs/bounds.md. One group serves all policies of a program. Default: nil, each
	// process counts alone. Not for Reconfigure to change. Prohibited with Exact and InsecureNoMemory.
	Peers *peers.Group

	// Tiers are Limits with other quotas and bursts, in the same order. The Tier of the [Identity]
	// chooses; without one, or with one not listed here (which is logged), it gets Limits.
	Tiers map[string][]Limit

	// LimitsFor gives customers limits of their own. Default: nil, the limits of their tier. Needs an
	// Identity.
	LimitsFor *LimitsFor

	// Cost prices a request. Default: 1. A cost of 0 peeks and counts nothing, so round up; one above a quota is answered 403, a negative
	// one 500, and logged. See [Middleware.HandlerCost] for one price of a whole route.
	Cost func(*http.Request) int64

	// Units have some of Limits count another cost than Cost, such as the tokens of a model, by the name of the unit. All
	// limits of all units are checked and charged in one step, or none is. Default: nil, all limits count Cost.
	Units map[string]Unit

	// Skip passes a request on unlimited and uncounted if it returns true. CORS preflights always are.
	Skip func(*http.Request) bool

	// Concurrency limits how many requests of a client are served at once. Default: nil, any number.
	Concurrency *Concurrency

	// ByOutcome has some of Limits count by outcome, such as wrong passwords. Default: nil, none does.
	// Prohibited with Exact, with InsecureNoMemory and with challenges that sell tallies.
	ByOutcome *ByOutcome

	// Instances is about how many instances serve the policy at once: [Middleware.Bounds] counts with it, and each has
	// one part of the quota in an outage of Exact under [FailOpen]. It divides nothing else. With Peers it is
	// at least the length of their list. Default: 1. Permitted: 1 to 1048576.
	Instances int64

	// MaxClients is for how many active clients the memory is made: 102 bytes for each and each limit
	// (docs/operations.md). Not for Reconfigure to change. Default: 65536. Permitted: up to 16777216.
	MaxClients int

	// TokenTransport says by which channels tokens travel. Default: [HeaderOrCookie].
	TokenTransport TokenTransport

	// Fields says by which response fields clients are told how the limits stand. Default: [RateLimitFields].
	Fields Fields

	// Quiet hides the quota, for routes such as login: no RateLimit field is sent, and no problem names
	// a policy. A client that decodes the token still finds the counts: see [MemoryOnly].
	Quiet bool

	// Shadow decides, counts and tells OnDecision, but does not refuse. Use it to try a policy on real
	// traffic. An identity function that denies a request is obeyed all the same.
	Shadow bool

	// RefusalHandler answers refused requests in place of the built-in problem details and page. The
	// decision in the context has the Status, which is sent if the handler sends none. All fields are
	// set already.
	RefusalHandler http.Handler

	// PageHandler replaces the built-in page alone, as RefusalHandler does; scripts still get problem
	// details. keptform.Handler is one. It is asked too for HTML that a script of a page loads, which
	// gets no built-in page. Prohibited with RefusalHandler.
	PageHandler http.Handler

	// OnDecision is called once for every decision, before the handler runs, on the request's
	// goroutine, and must not block. The context is the request's, or the caller's of
	// [Middleware.Decide].
	OnDecision func(context.Context, Decision)

	// Logger receives at most one line a minute for each kind of trouble, with a stable code
	// (docs/checks.md), and nothing that a client sent. Default: slog.Default().
	Logger *slog.Logger

	// Now is the clock, for tests. Default: time.Now.
	Now func() time.Time

	Advanced
}

// Format writes the policy's name for every verb, so that no log of a Config
// shows its Secrets. But package fmt calls no method of what lies in an unexported
// field: do not print a struct that holds a Config in one.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "middleware.Config(%s)", c.Policy) }

// Advanced are the fields of a [Config] that answer an attack or a rare need. Config embeds it. A
// literal names it:
//
//	Advanced: middleware.Advanced{InsecureCookie: true},
//
// Elsewhere write cfg.InsecureCookie. From Go 1.27 on a literal may also name the field itself, as in Config{InsecureCookie: true}.
type Advanced struct {
	_ [0]func()

	// Net56Factor and Net48Factor say how many times the quota of one IPv6 /64 a whole /56
	// and a whole /48 may use together. Default: 8, and 64 or Net56Factor if that is
	// larger. Permitted: 1 to 2147483647, Net48Factor no less than Net56Factor.
	Net56Factor, Net48Factor int64

	// EmbeddedCookie is for pages that live in other sites' frames: the cookie
	// becomes SameSite=None and Partitioned. Prohibited with InsecureCookie,
	// which browsers would not store, and with [HeaderOnly].
	EmbeddedCookie bool

	// InsecureCookie drops Secure, and with it the __Host- prefix that keeps
	// sibling domains from planting tokens. For development over plain HTTP. Prohibited with [HeaderOnly].
	InsecureCookie bool

	// InsecureNoMemory switches the memory off. Then nothing bounds a client
	// that drops, replays or forks its token: only honest clients are limited.
	InsecureNoMemory bool
}

// TokenTransport says by which channels tokens travel.
type TokenTransport uint8

const (
	// HeaderOrCookie reads both channels and answers on the one an accepted token came by. If there
	// was none, it answers a browser's navigation (Sec-Fetch-Mode: navigate) by cookie, as no
	// script can read its fields, and all else on both.
	HeaderOrCookie TokenTransport = iota

	// HeaderOnly uses the Tallystick-Token field alone.
	HeaderOnly

	// CookieOnly uses the cookie alone.
	CookieOnly

	// MemoryOnly sends no token: the memory alone counts. Prohibited with
	// InsecureNoMemory, where nothing would count.
	MemoryOnly
)
