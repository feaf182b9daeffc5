// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/storeless"
)

// checkByOutcome reports every problem of cfg.ByOutcome, and returns the places of its limits.
func checkByOutcome(cfg *Config, p *storeless.Policy) (late []int, errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{Field: "ByOutcome" + field, Problem: fmt.Sprintf(format, args...)})
	}
	b := cfg.ByOutcome
	switch {
	case cfg.Exact != nil:
		problem("", "cannot go with Exact: there the counter charges each request, and Refund gives back what was not meant to count")
	case cfg.InsecureNoMemory:
		problem("", "cannot go with InsecureNoMemory: what is charged after the response would be counted nowhere")
	}
	if c := cfg.Challenge; c != nil && c.Mode != EveryRequest {
		problem("", "cannot go with a Challenge but EveryRequest: each tally that is bought would be so many guesses more")
	}
	if c := cfg.Challenge; c != nil && c.WaitingRoom.Share != 0 {
		problem("", "cannot go with a waiting room, which would be guesses for a wait; leave Challenge.WaitingRoom.Share 0")
	}
	for _, status := range b.Free {
		if status < 200 || status > 599 {
			problem(".Free", "must be statuses of final responses, 200 to 599, not %d", status)
		}
	}
	if len(b.Limits) == 0 {
		problem(".Limits", "must name the limits that count by outcome")
	}
	if p == nil {
		return nil, errs
	}
	var names []string
	inForce := 0
	for i := range p.Len() {
		names = append(names, p.Limit(i).Name)
		if !p.Limit(i).Shadow {
			inForce++
		}
	}
	for i, name := range b.Limits {
		switch at := slices.Index(names, name); {
		case at < 0:
			problem(".Limits", "%q is none of %s", name, strings.Join(names, ", "))
		case p.Limit(at).Shadow:
			problem(".Limits", "%q is a Shadow, and cannot count by outcome", name)
		case slices.Contains(b.Limits[:i], name):
			problem(".Limits", "has %q twice", name)
		default:
			late = append(late, at)
		}
	}
	if len(late) == inForce {
		problem(".Limits", "must leave out at least one: what is free would not be limited at all")
	}
	return late, errs
}
