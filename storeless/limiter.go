// SPDX-License-Identifier: Apache-2.0

package storeless

import (
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
)

// A Config says what a [Limiter] limits. It is plain data.
type Config struct {
	// Policy names the limits. It is part of each token, and of the keys by which tokens are signed.
	// Permitted: 1 to 32 of a-z, 0-9 and "-".
	Policy string

	// Limits are checked together: all of them are charged, or none is. Permitted: 1 to
	// [MaxLimits], at least one of them in force (no Shadow); no [SlidingLog], no [RollingDay] and no Calendar.
	Limits []Limit

	// MaxClients is for how many active clients the memory is made. It is allocated at once and never
	// grows: some 102 bytes for each client and limit. More clients share counts, so that a new one may be refused
	// early ([Verdict].Inherited); no count is forgotten. Permitted: 1 to 2²⁴, or 0 for 65,536.
	MaxClients int
}

const mostClients = 1 << 24

// A Limiter decides by what a client shows and by what it remembers of the client, whichever says
// more. It is safe for concurrent use. It reads no clock: each method is told the time.
//
// An identity is the thing limited: an account, a device, a tenant. It may be any string, and is
// remembered as a hash under a seed that differs in each process.
type Limiter struct {
	policy *limiter.Policy
	memory *limiter.Memory
}

// New returns a limiter with an empty memory. Make one for each policy: two are two instances, and admit the limit each. New
// reports all problems of cfg at once, each a [ConfigError].
func New(cfg Config) (*Limiter, error) {
	policy, err := limiter.Compile(cfg.Policy, cfg.Limits)
	if cfg.MaxClients < 0 || cfg.MaxClients > mostClients {
		err = errors.Join(err, &ConfigError{Field: "MaxClients", Problem: fmt.Sprintf(
			"must be from 1 to %d, or 0 for %d, not %d", mostClients, limiter.DefaultClients, cfg.MaxClients)})
	}
	if err != nil {
		return nil, limiter.ProblemsAs[ConfigError](err)
	}
	return &Limiter{policy, limiter.NewMemory(cfg.MaxClients, policy.Len())}, nil
}

// Take decides a request of the given cost at now, and charges it if it is admitted. One cost is for every limit;
// several are a cost for each limit, in their order, such as one request and its tokens: all are charged, or none is. shown is the
// tally that the client brings, zero if it brings none. Show only what was signed: see package
// token. Take returns the tally for the client to bring next time, also after a refusal: the client may not know what
// others behind its identity have used. Read the clock after what may wait, such as the body of a request. A window that is over looks
// like a clock that has stepped back: the client would begin the present window anew. A cost of 0 is admitted and charges nothing. Take
// panics if a cost is negative, or if there are neither one nor as many as limits.
func (l *Limiter) Take(now time.Time, identity string, shown Tally, cost ...int64) (Tally, Verdict) {
	var each limiter.Costs
	c, most := l.candidate(identity, shown, &each, cost)
	tally, verdict := l.memory.Take(now, l.policy, &c, most)
	return limiter.StatesAs[State](tally), limiter.VerdictAs[Verdict](verdict)
}

// Peek says what [Limiter.Take] would say, and charges nothing: its Limits stand as they do without the cost. It panics as
// Take does.
func (l *Limiter) Peek(now time.Time, identity string, shown Tally, cost ...int64) Verdict {
	var each limiter.Costs
	c, most := l.candidate(identity, shown, &each, cost)
	return limiter.VerdictAs[Verdict](l.memory.Peek(now, l.policy, &c, most))
}

// Refund gives back at now what Take charged at then, where it still counts: work that failed, or the rest
// of an estimate. Several costs are for each limit, as in Take: 0 and 150 keep the request, and give back 150
// tokens. shown is the newest tally: as Take returned it, or as the client brings it. Refund returns the tally
// for the client to bring; a client that brings an older one has not got its quota back. Call it once for each
// charge: a second call gives away what others behind the identity have used. A Shadow gives back too, even what
// it had no room for and did not count, so that its count may be too low. Refund panics as Take does.
func (l *Limiter) Refund(now, then time.Time, identity string, shown Tally, cost ...int64) Tally {
	var each limiter.Costs
	c, most := l.candidate(identity, shown, &each, cost)
	return limiter.StatesAs[State](l.memory.Restore(now, then, l.policy, &c, most))
}

// candidate returns the tally of an identity, and the largest of the costs, which lie in each.
func (l *Limiter) candidate(identity string, shown Tally, each *limiter.Costs, costs []int64) (c limiter.Candidate, most int64) {
	n := l.policy.Len()
	if len(costs) != 1 && len(costs) != n {
		panic(fmt.Sprintf("storeless: %d costs; give one, or one for each of %d limits", len(costs), n))
	}
	c = limiter.Candidate{Key: l.memory.Key([]byte(identity)), Shown: limiter.StatesAs[limiter.State](shown)}
	if len(costs) > 1 {
		c.Costs = each
	}
	for i, cost := range costs {
		if cost < 0 {
			panic("storeless: negative cost")
		}
		each[i], most = cost, max(most, cost)
	}
	return c, most
}
