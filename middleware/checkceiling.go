// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"iter"

	"github.com/tallystick/tallystick/storeless"
)

// checkCeiling reports every problem of cfg.UnfairCeiling: of the policies of all tiers, each with the
// field that it is compiled of, and of the challenge, if there is one.
// A part below 1 is a problem and is not rounded up: the ceiling would not be one.
func checkCeiling(cfg *Config, challenge *challenger, tiers iter.Seq2[string, *storeless.Policy]) (errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	switch {
	case cfg.Exact != nil:
		problem("UnfairCeiling", "cannot go with Exact: there is one quota for all instances, which the counter holds")
		return errs
	case cfg.Instances < 2:
		problem("UnfairCeiling", "needs Instances of at least 2 to divide by; where one instance serves, leave it out: the memory holds the quota")
	}
	if cfg.InsecureNoMemory {
		problem("UnfairCeiling", "cannot go with InsecureNoMemory: nothing would know what an instance has admitted")
	}
	for at, p := range tiers {
		parts := indivisible(p, cfg.Instances)
		for _, part := range parts {
			problem(fmt.Sprintf("%s[%d].%s", at, part.place, part.field), "%s", part.problem)
		}
		if len(parts) == 0 && challenge != nil {
			errs = append(errs, challenge.indivisible(p, cfg.Instances)...)
		}
	}
	return errs
}

// An undivided is a number of a limit of which not each instance can have a part.
type undivided struct {
	place          int
	field, problem string
}

// indivisible returns what of p n instances cannot divide.
func indivisible(p *storeless.Policy, n int64) (list []undivided) {
	for i := range p.Len() {
		l := p.Limit(i)
		add := func(field string, has int64) {
			list = append(list, undivided{i, field, fmt.Sprintf(
				"must be at least Instances under UnfairCeiling: %d cannot be divided by %d; raise it, or leave UnfairCeiling out", has, n)})
		}
		switch {
		case l.Algorithm == storeless.LeakyBucket:
			list = append(list, undivided{i, "Algorithm",
				"must be another under UnfairCeiling: a LeakyBucket admits one at once, which cannot be divided; use a TokenBucket with a Burst of at least Instances"})
			continue
		case l.Quota < n:
			add("Quota", l.Quota)
		}
		if l.Algorithm == storeless.TokenBucket && l.Burst < n && l.Burst != l.Quota { // else it is said of the quota
			add("Burst", l.Burst)
		}
	}
	return list
}

// indivisible reports what of a bought tally, and of the waiting room, n instances cannot divide.
func (c *challenger) indivisible(p *storeless.Policy, n int64) (errs []error) {
	if c.mode != EveryRequest {
		for _, part := range indivisible(p.Pass(c.priceMemory), n) {
			errs = append(errs, &ConfigError{Field: "Challenge.PriceMemory", Problem: fmt.Sprintf(
				"leaves a bought tally too little of the limit %s to be divided by Instances, %d, under UnfairCeiling; raise it to the limit's window, or use EveryRequest", p.Limit(part.place).Name, n)})
		}
	}
	if c.share != 0 {
		for _, part := range indivisible(p.Share(c.share), n) {
			errs = append(errs, &ConfigError{Field: "Challenge.WaitingRoom", Problem: fmt.Sprintf(
				"has too little of the limit %s to be divided by Instances, %d, under UnfairCeiling; set Closed, or a smaller Share", p.Limit(part.place).Name, n)})
		}
	}
	return errs
}

// divides reports whether each instance has a part of all that a customer of these limits may
// use; without UnfairCeiling there are no parts.
func (c *customers) divides(e *engine, p *storeless.Policy) bool {
	return !c.cfg.UnfairCeiling || len(indivisible(p, c.cfg.Instances)) == 0 &&
		(e.challenge == nil || len(e.challenge.indivisible(p, c.cfg.Instances)) == 0)
}
