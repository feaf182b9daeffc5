// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware/exact"
)

// An Exact makes the limits of a policy exact: a counter that all instances share
// decides, and token and memory serve when it does not answer. It is plain data,
// like [Config].
type Exact struct {
	_ [0]func()

	// Counter counts. Required. Several policies may share one.
	Counter exact.Counter

	// Outage says what becomes of requests while the counter does not answer. There is no default:
	// either choice is wrong for some programs. Required.
	Outage Outage

	// Contended says what becomes of a request whose call has lost every race for its key, with
	// [exact.ErrContended]: on a counter that stores a key only if no other call has changed it
	// meanwhile, such as the counters of package exact/cas. That is load and no outage. FailClosed
	// answers 503. FailOpen decides as in an outage, by the fallback quotas: a client that hammers
	// its own key through all instances at once then gets these on top. Default: FailClosed.
	Contended Outage

	// Deadline is how long a request waits for the counter, in line and for the answer. It should
	// be at least four times as long as a call takes, with the way to the server and back: if calls
	// take more than half of it, few can be out at once. At twice as long some requests are
	// answered 503 as load, and at once as long most are, whatever Outage says. Default: what the
	// counter says by a method Deadline() time.Duration: exact/file and exact/cas, which wait for a
	// disk, say 250 ms. A counter of yours around one of them needs that method too. Other counters
	// have 50 ms, for a server 12 ms away. Permitted: from 1 ms to 10 s.
	Deadline time.Duration

	// InFlight is how many calls may wait for the counter at once, or for each part of one that is
	// Partitioned (package engine). One more is answered 503, whatever Outage says: load is no outage,
	// else a flood of the counter would open the fallback. Strangers have three quarters of the
	// places, so that a flood of them leaves room for paying clients (see PayingTiers). No identity
	// has more places than are left, so one alone has half of them.
	//
	// How many of those calls are sent at once follows the round trip: fewer, where an
	// answer takes near half of Deadline. The others stand in line. The queue of a server
	// that all instances share is then shorter than Deadline, and the flood is answered
	// 503, as long as two calls of each instance, one after the other, take less than half
	// of Deadline: 2 · instances · (time of one call) < Deadline/2. With 4 instances and
	// 50 ms that is a call of 3 ms.
	//
	// A call that times out among more than half of InFlight, or where others stood in line, is
	// load too, unless the counter has answered no call for a second. Where this process notices
	// deadlines late, by 10 ms or an eighth of them, the timeout is load unless the counter has
	// answered none for ten seconds. Default: 256. Permitted: 1 to 65536.
	InFlight int64

	// PayingTiers are the names of those Config.Tiers that pay: a client of any other tier is a
	// stranger, and takes turns with strangers. Set it where an API key costs nothing, or else a
	// client that has many keys leaves no room for your customers. Default: nil, addresses are
	// strangers, and all others pay.
	PayingTiers []string
}

// Outage says what becomes of requests while an exact counter does not answer.
type Outage uint8

const (
	_ Outage = iota // no default

	// FailOpen decides by token and memory, as if there were no counter, each
	// instance by its share of the quota, see [Config.Instances]. A cost above that share is answered 503.
	FailOpen

	// FailClosed answers 503.
	FailClosed
)

// check reports every problem of x, which has its defaults, in a policy with tiers.
func (x *Exact) check(tiers map[string][]Limit) (errs []error) {
	problem := limiter.Noting(&errs, "Exact.")
	if x.Counter == nil {
		problem("Counter", "is required")
	}
	if x.Outage != FailOpen && x.Outage != FailClosed {
		problem("Outage", "must be FailOpen or FailClosed; there is no default")
	}
	if x.Contended != FailOpen && x.Contended != FailClosed {
		problem("Contended", "must be FailOpen or FailClosed, or 0 for FailClosed")
	}
	if x.Deadline < time.Millisecond || x.Deadline > 10*time.Second {
		problem("Deadline", "must be from 1 ms to 10 s, or 0 for the default of the counter, not %s", span.Text(x.Deadline))
	}
	if x.InFlight < 1 || x.InFlight > 65536 {
		problem("InFlight", "must be from 1 to 65536, or 0 for 256, not %d", x.InFlight)
	}
	for i, name := range x.PayingTiers {
		if _, ok := tiers[name]; !ok {
			problem(fmt.Sprintf("PayingTiers[%d]", i), "there is no tier %q in Config.Tiers", name)
		}
	}
	return errs
}

// withDefaults returns x with what it leaves zero filled in.
func (x Exact) withDefaults() Exact {
	x.Contended = cmp.Or(x.Contended, FailClosed)
	if slow, ok := x.Counter.(interface{ Deadline() time.Duration }); ok {
		x.Deadline = cmp.Or(x.Deadline, slow.Deadline())
	}
	x.Deadline = cmp.Or(x.Deadline, 50*time.Millisecond)
	x.InFlight = cmp.Or(x.InFlight, 256)
	x.PayingTiers = slices.Clone(x.PayingTiers)
	return x
}
