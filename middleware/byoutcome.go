package middleware

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tallystick/tallystick/storeless"
)

// ByOutcome has some limits count by outcome, such as the wrong passwords of a log-in. It is
// plain data, like [Config].
//
// A request is admitted if all limits have room for its cost. In a limit that counts by
// outcome it then holds that room, and is charged when the response header is written, unless
// its status is free: so a thousand requests at once get no more than the quota, and the
// quota is how many can be under way at once, too. Everything else is charged: a handler that
// panics, takes the connection over or writes no status, a client that has gone by then,
// and a request that is not answered after 10 seconds, whatever comes of it. For a
// handler whose status does not tell there are [Charge] and [NoCharge].
//
// Tokens say only what is charged. What is held is known to this instance alone, in a map of
// its live requests; a refusal for that alone says Retry-After 1, because nobody knows when
// they end. The RateLimit fields are written before the outcome is known, and tell of the charge.
type ByOutcome struct {
	_ [0]func()

	// Limits are the names of the limits that count by outcome. At least one limit of the
	// policy must not be among them: what is free is not limited by these, and guessing
	// names or making the server hash passwords would be free. Required.
	Limits []string

	// Free are the statuses that do not count: those of success alone, such as 303. A
	// status that is free is a question that can be asked for ever, so that each is named.
	// A handler that writes a body without a status answers 200. Permitted: 200 to 599, or none
	// for a handler that always says [NoCharge].
	Free []int
}

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
	for i := range p.Len() {
		names = append(names, p.Limit(i).Name)
	}
	for i, name := range b.Limits {
		switch at := slices.Index(names, name); {
		case at < 0:
			problem(".Limits", "%q is none of %s", name, strings.Join(names, ", "))
		case slices.Contains(b.Limits[:i], name):
			problem(".Limits", "has %q twice", name)
		default:
			late = append(late, at)
		}
	}
	if len(late) == p.Len() {
		problem(".Limits", "must leave out at least one: what is free would not be limited at all")
	}
	return late, errs
}

// countByOutcome has the limits at the places late count by outcome, in each tier.
func (e *engine) countByOutcome(cfg *Config, late []int) {
	e.free = slices.Clone(cfg.ByOutcome.Free)
	isLate := func(i int) bool { return slices.Contains(late, i) }
	atDoor := func(i int) bool { return !isLate(i) }
	for _, t := range e.tiersOf() {
		t.late, t.late56, t.late48 = t.policy.Charging(isLate), t.net56.Charging(isLate), t.net48.Charging(isLate)
		t.policy, t.net56, t.net48 = t.policy.Charging(atDoor), t.net56.Charging(atDoor), t.net48.Charging(atDoor)
	}
}

// serve has next serve a request whose outcome counts.
func (p *pending) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p.dc.reply.Final = p.conclude
	defer p.end()
	next.ServeHTTP(p.dc.reply.Wrap(w), r)
	p.returned = true
}
