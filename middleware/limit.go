// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/storeless"
)

// Limit is [storeless.Limit], so that most programs import this package alone: Quota requests
// in each Window, or with [Config].Exact in each Calendar month, by an Algorithm, with a Name if it may ever change, a Burst for a bucket,
// and Shadow to try it.
type Limit = storeless.Limit

// The values of [storeless.Algorithm] that most programs name. The default is a sliding window.
const (
	FixedWindow = storeless.FixedWindow
	TokenBucket = storeless.TokenBucket
)

// ByOutcome has some limits count by outcome, such as the wrong passwords of a log-in. It is
// plain data, like [Config].
//
// A request is admitted if all limits have room for its cost. In a limit that counts by outcome it
// then holds that room, and is charged when the response header is written, unless its status is
// free: so a thousand requests at once get no more than the quota. This also means that at most the
// quota can be under way at once. Everything else is charged: a handler that panics, takes the
// connection over or writes no status, a client that has gone by then, and a request that is not
// answered after 10 seconds, whatever comes of it. For a handler whose status does not tell there
// is [Charge].
//
// Tokens say only what is charged. Only this instance knows what is held, in a map of its live
// requests; a refusal for that alone says Retry-After 1, because it is not known when they end. The
// RateLimit fields are written before the outcome is known, and tell of the charge.
type ByOutcome struct {
	_ [0]func()

	// Limits are the names of the limits that count by outcome. At least one limit of the
	// policy must not be among them: what is free is not limited by these, and guessing
	// names or making the server hash passwords would be free. Required.
	Limits []string

	// Free are the statuses that do not count: statuses of success alone, such as 303. A status
	// that is free is a question that can be asked for ever, so that each is named. A handler that
	// writes a body without a status answers 200. Permitted: 200 to 599, or none for a handler that
	// always calls [Charge].
	Free []int
}

// A Unit lets some limits of a policy count something else than [Config].Cost. It is plain data, like
// Config.
//
//	Limits: []middleware.Limit{
//		{Name: "requests", Quota: 60, Window: time.Minute},
//		{Name: "tokens", Quota: 100_000, Window: time.Minute},
//	},
//	Units: map[string]middleware.Unit{"tokens": {Limits: []string{"tokens"}, Cost: estimate}},
//
// Its key in the map is the unit's name in [Settle], in [Ask].Costs and, as qu, in RateLimit-Policy. Permitted: 1 to 48
// of a-z, 0-9 and "-".
type Unit struct {
	_ [0]func()

	// Limits are the names of the limits that count it. A limit counts one unit, and none that [ByOutcome] names
	// counts another than Cost. Required.
	Limits []string

	// Cost estimates what a request costs; [Settle] corrects that. It is called once for a request, and not if the request costs 0 by
	// [Config].Cost or [Middleware.HandlerCost]: then it peeks in all units. A limit at a cost of 0 is not charged, refuses
	// nothing, and cannot be settled: a client must not be able to choose that, so estimate 1 at least. Default: 1.
	Cost func(*http.Request) int64
}

// LimitsFor gives customers limits of their own, from a database for example. It is plain
// data, like [Config].
//
// It is asked about identities that [APIKey] and [Principal] made, and never about an address: a
// flood from many addresses must drive no database. Neither is it asked about names of more than
// 1024 bytes, with what [Identity.For] has added. But a name that is typed and not yet proved, as
// at a log-in, is asked about like any other: limit those by a policy without LimitsFor. A
// customer's limits are in force wherever its tier's would be, in the RateLimit fields too. Counts
// stay when they change.
//
// While nothing is known of a customer, a request waits for the answer, and all others of the same
// customer for the same call. An answer serves for Life. After that a request has it asked for anew
// and goes on with the old one; after two lives it waits again. If the function fails, panics, is
// late, or answers limits that are not sound, that is logged, what it said last applies, and else
// the limits of the identity's Tier, or Config.Limits. Then it is asked again after a tenth of
// Life, one second at least, and no request waits for that.
//
// After [Middleware.Reconfigure] each customer is asked about anew, and what was known
// before applies if no answer comes: this makes a change known at once.
type LimitsFor struct {
	_ [0]func()

	// Func returns the limits of a customer: with the names, algorithms, windows and zones of
	// Config.Limits, in that order, and a Quota and a Burst of its own. No limits and no error mean
	// the limits of its Tier. [Identity.Name] names the customer. Required.
	//
	// Its context ends at Deadline, and has the values of the request that asked first. It
	// runs on a goroutine of its own: one call at a time for each customer, and 16 for all
	// together. A function that does not look at its context keeps its place among the 16
	// until it returns.
	Func func(ctx context.Context, id Identity) ([]Limit, error)

	// Life is how long an answer serves. Default: one minute. Permitted: from 1 s to 24 h.
	Life time.Duration

	// Deadline is how long a request waits at most. An answer that comes later
	// serves the next. Default: 100 ms. Permitted: from 1 ms to 10 s.
	Deadline time.Duration

	// Customers is how many customers' answers are kept: about 1 KB each where all their numbers
	// differ, less where some have the same. One more takes the place of a customer that has not
	// asked for long. Default: 65536. Permitted: 1 to 1048576.
	Customers int
}

// withDefaults returns l with what it leaves zero filled in.
func (l LimitsFor) withDefaults() LimitsFor {
	l.Life = cmp.Or(l.Life, time.Minute)
	l.Deadline = cmp.Or(l.Deadline, 100*time.Millisecond)
	l.Customers = cmp.Or(l.Customers, 1<<16)
	return l
}

// check reports every problem of l, which has its defaults.
func (l *LimitsFor) check() (errs []error) {
	problem := limiter.Noting(&errs, "LimitsFor.")
	if l.Func == nil {
		problem("Func", "is required")
	}
	if l.Life < time.Second || l.Life > 24*time.Hour {
		problem("Life", "must be from 1 s to 24 h, or 0 for 1 min, not %s", span.Text(l.Life))
	}
	if l.Deadline < time.Millisecond || l.Deadline > 10*time.Second {
		problem("Deadline", "must be from 1 ms to 10 s, or 0 for 100 ms, not %s", span.Text(l.Deadline))
	}
	if l.Customers < 1 || l.Customers > 1<<20 {
		problem("Customers", "must be from 1 to 1048576, or 0 for 65536, not %d", l.Customers)
	}
	return errs
}

// told joins errors, and returns the problems that the engine found as those that users know.
func told(errs ...error) error {
	return limiter.ProblemsAs[storeless.ConfigError](errors.Join(errs...))
}
