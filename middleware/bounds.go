// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/calendar"
	"github.com/tallystick/tallystick/internal/gossip"
	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/internal/span"
)

// Bounds are the rows of docs/bounds.md that apply to one configuration, with its numbers: what a client gets at most.
// They hold for one identity and requests that cost 1, or anything in their units, while the configuration stays as it is, the clocks agree and no
// instance starts anew: one that does counts as one more.
type Bounds struct {
	Policy string

	// Instances is N, see [Config.Instances].
	Instances int64

	// Rows have the limits of one tier after the other, and of each tier one client after the other. A Shadow has none.
	Rows []Bound

	// Warning names a number that defeats the limit, and a cure. It is empty where there is none.
	Warning string
}

// A Bound tells how much a client gets of one limit at most. It is plain data.
type Bound struct {
	Tier  string // "": Config.Limits
	Limit Limit  // with its defaults filled in
	Unit  string // that the limit counts, see [Config].Units; "": Cost

	// Client says what the client does. Of work it says for how many seconds a core computes, at all instances
	// together and for all that the client can show in the window: 74.7 million hashes a second, which a program in C
	// reached with the SHA extensions of x86 (proof/lab/price). With AVX-512 it is a fifth more.
	Client string

	// Admitted is the number of requests in an aligned window of the limit, or in any span of that length if it is a
	// bucket or a log; of a unit, what all of them cost. [math.MaxInt64] means: not limited.
	Admitted int64
}

// coreHashes are the hashes that a core makes in a second: see [Bound].Client.
const coreHashes = 74_700_000

// absurd is a multiple of the quota that no operator means by a limit.
const absurd = 2000

// A gain tells how much a client gets of the i-th limit.
type gain func(i int) int64

// A claim is a row of all limits of a tier. A figure of the log has its key.
type claim struct {
	key, client string
	gain
}

// bounds works the rows out, and the figures by which the log tells of the tier that a warning is about, or of the first.
func (e *engine) bounds() (b Bounds, figures []any) {
	b = Bounds{Policy: e.name, Instances: e.instances}
	tiers := e.tiersOf()
	slices.SortFunc(tiers, func(a, b *tier) int { return cmp.Compare(a.name, b.name) })
	for _, t := range tiers {
		claims := e.claims(t)
		for _, c := range claims {
			for i, name := range t.names {
				if name == "" {
					continue
				}
				row := Bound{t.name, t.limit(i), t.unit(i), c.client, c.gain(i)}
				b.Rows = append(b.Rows, row)
				defeated := b.Warning == "" && c.key != "" && c.key != "net48" && row.Admitted/absurd >= row.Limit.Quota
				if defeated {
					b.Warning = row.warning(e)
				}
				if defeated || figures == nil {
					figures = figuresOf(t, claims)
				}
			}
		}
	}
	return b, figures
}

// figuresOf are the fields of the log that tell of a tier: in each the limits stand in one order.
func figuresOf(t *tier, claims []claim) (args []any) {
	each := func(key string, say func(i int) string) {
		var all []string
		for i, name := range t.names {
			if name != "" {
				all = append(all, say(i))
			}
		}
		args = append(args, key, strings.Join(all, "; "))
	}
	if t.name != "" {
		args = append(args, "tier", t.name)
	}
	each("limits", func(i int) string { return meant(t.limit(i), t.unit(i)) })
	for _, c := range claims {
		if c.key != "" {
			each(c.key, func(i int) string { return figure(c.gain(i)) })
		}
	}
	return args
}

// A reckoner works out what clients get of the limits of one tier.
type reckoner struct {
	*engine
	of *tier
}

// one returns what one memory admits of a tally at most.
func (r reckoner) one(p *limiter.Policy) gain {
	life := time.Duration(limiter.MaxWindow)
	if r.isPass(p) {
		life = r.challenge.passLife
	}
	return func(i int) int64 { return p.Most(i, min(p.Limit(i).Window, life)) }
}

// fleet returns what the memories of all instances admit, where no token carries the count.
func (r reckoner) fleet(p *limiter.Policy) gain {
	one := r.one(p)
	return func(i int) int64 {
		switch {
		case r.forgets:
			return math.MaxInt64
		case r.hearing && r.of.unit(i) == "": // in another unit a request may cost all of it
			return one(i) + (r.instances-1)*gossip.Slack(p.Limit(i).Quota, r.instances, r.isPass(p)) // unheard by each of the others
		}
		return times(r.instances, one(i))
	}
}

// isPass reports whether p are the limits of a tally that is bought.
func (r reckoner) isPass(p *limiter.Policy) bool { return r.of.pass != nil && p == r.of.pass.policy }

// work returns what a client gets that works on an address or a network that is expected to hide this many crowds: what it
// has for nothing, and more. A tally that is shown in the window was bought in it, or in the life of a tally before.
func (r reckoner) work(free gain, shared *limiter.Policy, crowds, seconds int64) gain {
	c, hashes := r.challenge, seconds*coreHashes
	if c.mode == EveryRequest {
		shown := r.instances // how often a proof is good
		switch {
		case r.forgets:
			shown = math.MaxInt64
		case r.hearing:
			shown = 1
		}
		most := r.fleet(shared)
		return func(i int) int64 {
			if r.of.unit(i) != "" {
				return most(i) // a proof buys one request, whatever that costs
			}
			return min(most(i), times(hashes/c.work, shown))
		}
	}
	sellers, unheard := r.instances, int64(0)
	if r.hearing {
		sellers, unheard = 1, r.instances-1
	}
	pass := r.fleet(r.of.pass.policy)
	return free.and(func(i int) int64 {
		span := int64((r.of.limit(i).Window + c.passLife) / time.Second)
		return times(c.prices.Most(sellers, crowds, span, hashes)+unheard, pass(i))
	})
}

const holdsNet48 = "holds a whole IPv6 /48"

// claims are the rows of one tier.
func (e *engine) claims(t *tier) []claim {
	r, c := reckoner{e, t}, e.challenge
	if e.exact != nil {
		return r.counted()
	}
	first, free, free48 := t.policy, r.fleet(t.policy), r.fleet(t.net48)
	switch {
	case c == nil || c.mode == EveryRequest && c.work == 0:
	case c.mode == EveryRequest, c.mode == Newcomers && t.passHolds(): // else what is too dear for a pass is had without one
		none := gain(func(int) int64 { return 0 })
		free, free48 = none, none
	}
	if c.sellsTallies() && c.mode == Newcomers {
		first = t.pass.policy
	}
	var all []claim
	if e.transport.kind != MemoryOnly {
		all = append(all, claim{"echoes", "echoes its newest token", r.one(first)})
	}
	all = append(all, claim{"drops", "drops its tokens, or sends requests at once", free})
	if t.room != nil {
		all = append(all, claim{"", "the same, and waits in the waiting room", free.and(r.fleet(t.room.policy))})
	}
	if c == nil || c.mode == EveryRequest && c.work == 0 {
		return append(all, claim{"net48", holdsNet48, free48})
	}
	return append(all,
		claim{"works", "works for 1 s of a core", r.work(free, t.policy, 1, 1)},
		claim{"", "works for 1 min of a core", r.work(free, t.policy, 1, 60)},
		claim{"", "works for 1 h of a core", r.work(free, t.policy, 1, 3600)},
		claim{"", holdsNet48 + ", and works for 1 s", r.work(free48, t.net48, crowds48, 1)})
}

// counted are the rows of a tier on an exact route.
func (r reckoner) counted() []claim {
	x, t := r.exact, r.of
	counted := gain(func(i int) int64 { return limiter.LimitAs[limiter.Limit](t.exact.Limit(i)).Most(t.limit(i).Window) })
	outage := counted
	if x.Outage == FailOpen || x.Contended == FailOpen {
		fallback := r.fleet(t.fallback)
		outage = counted.and(func(i int) int64 { return standsIn(t.exact.Limit(i), fallback(i)) })
	}
	return []claim{
		{"counted", "whatever it sends", counted},
		{"outage", "the same, and the counter does not answer", outage},
		{"net48", holdsNet48 + ", each /64 a client", func(i int) int64 { return times(1<<16, counted(i)) }},
	}
}

// standsIn returns what clients get in one window of a counter's limit while token and memory decide, and admit most
// in a window of theirs. For a window of the calendar the shortest such unit stands in, and begins at another time: at the
// worst one of these ends as the month begins, a second one follows, and of a third there is the part by which the month is longer.
func standsIn(l Limit, most int64) int64 {
	switch {
	case l.Calendar == "":
		return most
	case most > math.MaxInt64/3:
		return math.MaxInt64
	}
	hours, more := int64(l.Window/time.Hour), int64((calendar.Longest(l.Calendar)-l.Window)/time.Hour)
	return 2*most + most/hours*more + (most%hours*more+hours-1)/hours
}

// and returns what a client gets by both.
func (g gain) and(more gain) gain {
	return func(i int) int64 {
		a, b := g(i), more(i)
		if a > math.MaxInt64-b {
			return math.MaxInt64
		}
		return a + b
	}
}

// times returns a·b, or the largest number there is.
func times(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// warning says what is absurd about a row, and what would mend it.
func (b *Bound) warning(e *engine) string {
	cure := "use Exact"
	if !e.hearing && e.instances > 1 {
		cure = "use Exact, Peers"
	}
	switch {
	case e.forgets:
		cure = "take InsecureNoMemory away"
	case e.exact != nil:
		cure = "let it fail closed"
	case e.challenge != nil:
		cure += ", or a larger Challenge.Work"
	}
	tier := ""
	if b.Tier != "" {
		tier = " of the tier " + b.Tier
	}
	return fmt.Sprintf("a client%s that %s gets %s where %s is meant, with N = %s: %s", tier, b.Client, figure(b.Admitted), b.meant(), figure(e.instances), cure)
}

// meant is what the limit says.
func (b *Bound) meant() string { return meant(b.Limit, b.Unit) }

// meant is what a limit of a unit says.
func meant(l Limit, unit string) string {
	window := span.Text(l.Window)
	if l.Calendar != "" {
		window = "a " + l.Calendar
	}
	if unit != "" {
		return figure(l.Quota) + " " + unit + " in " + window
	}
	return figure(l.Quota) + " in " + window
}

// figure writes a number with a comma at each thousand.
func figure(n int64) string {
	if n == math.MaxInt64 {
		return "not limited"
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// String writes a table for each tier, of aligned lines: a client each, and a column for each limit.
func (b Bounds) String() string {
	var out strings.Builder
	width, column := 0, 18
	for _, r := range b.Rows {
		width, column = max(width, len(r.Client)), max(column, len(r.meant())+2)
	}
	last := Bound{Tier: "\n"} // which is no tier
	for i, r := range b.Rows {
		if r.Tier != last.Tier {
			title := fmt.Sprintf("%s, N = %s", b.Policy, figure(b.Instances))
			if r.Tier != "" {
				title = "tier " + r.Tier
			}
			fmt.Fprintf(&out, "%-*s", width, title)
			for _, head := range b.Rows[i:] {
				if head.Tier != r.Tier || head.Client != r.Client {
					break
				}
				fmt.Fprintf(&out, "%*s", column, head.meant())
			}
			out.WriteString("\n")
		}
		if r.Tier != last.Tier || r.Client != last.Client {
			fmt.Fprintf(&out, "%-*s", width, r.Client)
		}
		fmt.Fprintf(&out, "%*s", column, figure(r.Admitted))
		if i+1 == len(b.Rows) || b.Rows[i+1].Client != r.Client || b.Rows[i+1].Tier != r.Tier {
			out.WriteString("\n")
		}
		last = r
	}
	if b.Warning != "" {
		out.WriteString(b.Warning + "\n")
	}
	return out.String()
}
