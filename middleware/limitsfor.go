// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"context"
	"fmt"
	"time"
)

// LimitsFor gives customers limits of their own, from a database for example. It is plain
// data, like [Config].
//
// It is asked about identities that [APIKey] and [Principal] made, and never about an address: a
// crowd of addresses must drive no database. Neither is it asked about names of more than 1024
// bytes, with what [Identity.For] has added. But a name that is typed and not yet proved, as at
// a log-in, is asked about like any other: limit those by a policy without LimitsFor. A customer's limits are in force wherever those of
// its tier would be, in the RateLimit fields too. What was counted stays when they change.
//
// While nothing is known of a customer, a request waits for the answer, and all others of
// the same customer for the same call. An answer serves for Life. After that a request has it asked
// for anew and goes on with the old one; after two lives it waits again. If the function fails,
// panics, is late, or answers limits that are not sound, that is logged, what it said last applies,
// and else the limits of the identity's Tier, or Config.Limits. Then it is asked again after a
// tenth of Life, one second at least, and nobody waits for that.
//
// After [Middleware.Reconfigure] each customer is asked about anew, and what was known
// before applies if no answer comes: this makes a change known at once.
type LimitsFor struct {
	_ [0]func()

	// Func returns the limits of a customer: with the names, algorithms and windows of
	// Config.Limits, in that order, and a Quota and a Burst of its own. No limits and no
	// error mean those of its Tier. [Identity.Name] says who it is. Required.
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

	// Customers is of how many customers the answers are kept: about 1 KB each where all their
	// numbers differ, less where some have the same. Where tallies are sold and Config.Instances is
	// set it is 3 KB for one limit of a quota of 100, and up to 7 KB for the largest. One more takes the
	// place of one that has not asked for long. Default: 65536. Permitted: 1 to 1048576.
	Customers int
}

// withDefaults returns l with what it leaves zero filled in.
func (l LimitsFor) withDefaults() LimitsFor {
	if l.Life == 0 {
		l.Life = time.Minute
	}
	if l.Deadline == 0 {
		l.Deadline = 100 * time.Millisecond
	}
	if l.Customers == 0 {
		l.Customers = 1 << 16
	}
	return l
}

// check reports every problem of l, which has its defaults.
func (l *LimitsFor) check() (errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{Field: "LimitsFor." + field, Problem: fmt.Sprintf(format, args...)})
	}
	if l.Func == nil {
		problem("Func", "is required")
	}
	if l.Life < time.Second || l.Life > 24*time.Hour {
		problem("Life", "must be from 1s to 24h, or 0 for 1m, not %s", l.Life)
	}
	if l.Deadline < time.Millisecond || l.Deadline > 10*time.Second {
		problem("Deadline", "must be from 1ms to 10s, or 0 for 100ms, not %s", l.Deadline)
	}
	if l.Customers < 1 || l.Customers > 1<<20 {
		problem("Customers", "must be from 1 to 1048576, or 0 for 65536, not %d", l.Customers)
	}
	return errs
}
