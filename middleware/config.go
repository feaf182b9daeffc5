// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// A Config describes one policy. It is plain data: [New] copies it, checks it
// and never looks at it again. Policy, Limits and Secrets are all that most
// programs set.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Policy names the policy: in the RateLimit fields, in the cookie's name,
	// as the tokens' audience. Permitted: 1 to 32 of a-z, 0-9 and "-".
	// Required. Two policies of one program need different names.
	Policy string

	// Limits are decided together: a request that one of them refuses is
	// charged on none. Give each a Name if they may ever change: what was counted
	// follows the name. Permitted: 1 to 8, with Exact 1 to 7. Required.
	Limits []Limit

	// Secrets sign the tokens: the first signs, all verify. Every instance
	// needs the same ones. To rotate, add the new secret last everywhere, then
	// move it first everywhere, then drop the old one after
	// [Stats].TokenLife. Permitted: 1 to 8 different secrets of at least 32 random bytes.
	// Required.
	Secrets [][]byte

	// Tiers are further sets of limits. The Tier of the request's [Identity] chooses
	// among them. They have the names, algorithms and windows of Limits, in
	// that order, and differ in Quota and Burst. An identity without tier, or
	// with one not listed here (which is logged), gets Limits.
	Tiers map[string][]Limit

	// LimitsFor gives customers limits of their own. Default: nil, those of their tier.
	// Prohibited without an Identity.
	LimitsFor *LimitsFor

	// Instances is about how many instances serve the policy at once. Permitted: 1 to 1048576.
	// Default: 1, with which each of them admits what all may.
	//
	// Where tallies are sold, one is worth its quota L on the instance whose challenge was solved, and on
	// each other one a share q, see [storeless.Policy.Away]: of L = 100 on ten instances 19, with which
	// chance refuses no more than one in 2,000 of the requests of a client that uses all of L. A number
	// that is too large refuses more of them, and offers a further tally; one that is too small lets a tally be worth
	// more. Requests that cost more than 1 have a larger share, and those of each power of two their own. Where a balancer keeps a client on one
	// instance, and after each deploy, all but the newest tallies are away from home: leave it 1 if that is
	// too dear for them.
	//
	// Each instance admits one part in Instances of the quota, at least 1: with Exact in an outage
	// under [FailOpen], with UnfairCeiling always.
	Instances int64

	// Identity tells who is asking. Default: [PeerAddress]. Behind a proxy use
	// [ForwardedFor] or [AddressFromHeader]; for customers, [ValidatedKey].
	Identity IdentityFunc

	// Cost prices a request. Default: 1. A cost of 0 peeks, a cost above a
	// quota is answered 403, a negative cost is answered 500 and logged. A route with one
	// price for all its requests says it by [Middleware.HandlerCost].
	Cost func(*http.Request) int64

	// Skip passes a request on unlimited and uncounted if it returns true.
	// CORS preflights always are.
	Skip func(*http.Request) bool

	// TokenTransport says by which channels tokens travel. Default: [HeaderOrCookie].
	TokenTransport TokenTransport

	// MaxClients is how many clients that are active at once the memory is made for, of
	// IPv4 or of IPv6. It takes 102 bytes for each of them and each limit, and 12 more for
	// each, for ever: 7.2 MiB by default for one limit, and half as much more where a
	// Challenge sells tallies. It cannot change in Reconfigure. Default: 65536.
	// Permitted: up to 16777216.
	MaxClients int

	// Challenge offers work to clients that the limits refuse, or that have
	// nothing to show. Default: nil, never.
	Challenge *Challenge

	// Exact makes the limits exact across all instances, by a counter that they
	// share. Default: nil, token and memory decide. Prohibited with Challenge.
	Exact *Exact

	// Concurrency limits how many requests of a client are served at once. Default: nil,
	// any number.
	Concurrency *Concurrency

	// ByOutcome has some of Limits count by outcome, such as the failures of a log-in
	// alone. Default: nil, every limit counts every request. Prohibited with Exact, with
	// InsecureNoMemory and with challenges that sell tallies.
	ByOutcome *ByOutcome

	// Quiet hides the quota, for routes such as login where it would tell how many guesses
	// are left: no RateLimit field is sent, and no problem names a policy. A
	// client that decodes the token still finds the counts: see [MemoryOnly].
	Quiet bool

	// Fields says by which response fields clients are told how the limits stand, such as
	// RateLimitFields|XRateLimitInSeconds, for clients that know no other than X-RateLimit.
	// Default: [RateLimitFields] alone.
	Fields Fields

	// Shadow decides and counts but never refuses: to try a policy on real
	// traffic. The decision says what would have happened. An identity function
	// that denies a request is obeyed all the same: it may be guarding a door.
	Shadow bool

	// RefusalHandler answers refused requests in place of the built-in problem
	// details and page. It must write a response; the decision in the context
	// says why and which Status is meant, and all fields are set already.
	RefusalHandler http.Handler

	// PageHandler replaces the built-in page alone, which answers refused clients that
	// prefer HTML: people. It is also asked for what a script of a page loads as HTML, which gets
	// no built-in page. Scripts still get problem details. As with RefusalHandler, the
	// decision is in the context and the fields are set; PageHandler writes the Status.
	// [Interstitial] is one, for sites with plain HTML forms. Prohibited with
	// RefusalHandler, which answers every client.
	PageHandler http.Handler

	// OnDecision is called once for every decision, before the handler runs, on the
	// request's goroutine: the place for metrics. It must not block. The context is the
	// request's or, of a decision outside of HTTP, that of [Middleware.Decide] or Check;
	// [Decision.Request] is the request, if there was one.
	OnDecision func(context.Context, Decision)

	// Logger receives at most one line a minute for each kind of trouble, none
	// of it with what a client sent. Each has a stable code; docs/checks.md lists them.
	// Default: slog.Default().
	Logger *slog.Logger

	// Now is the clock, for tests. Default: time.Now.
	Now func() time.Time

	// Advanced answers attacks and rare needs.
	Advanced
}

// Format writes the policy's name for every verb, so that no log of a Config
// shows its Secrets. But package fmt calls no method of what lies in an unexported
// field: do not print a struct that holds a Config in one.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "middleware.Config(%s)", c.Policy) }

// TokenTransport says by which channels tokens travel.
type TokenTransport uint8

const (
	// HeaderOrCookie reads both channels and answers on the one an accepted token came
	// by. If there was none, it answers a browser's navigation (Sec-Fetch-Mode: navigate),
	// whose fields nobody can read, by cookie, and all else on both.
	HeaderOrCookie TokenTransport = iota

	// HeaderAndCookie reads both channels and always answers on both.
	HeaderAndCookie

	// HeaderOnly uses the Tallystick-Token field alone.
	HeaderOnly

	// CookieOnly uses the cookie alone.
	CookieOnly

	// MemoryOnly sends no token: the memory alone counts. Prohibited with
	// InsecureNoMemory, where nothing would count.
	MemoryOnly
)
