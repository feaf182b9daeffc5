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

// claims are the rows of one tier.
func (e *engine) claims(t *tier) (all []claim) {
	add := func(key, client string, g gain) { all = append(all, claim{key, client, g}) }
	const wide = "holds a whole IPv6 /48"
	instances := e.instances
	none := gain(func(int) int64 { return 0 })
	// one returns what one memory admits of a tally at most. fleet returns the same for the memories of all
	// instances, where no token carries the count.
	one := func(p *limiter.Policy) gain {
		life := time.Duration(limiter.MaxWindow)
		if t.pass != nil && p == t.pass.policy {
			life = e.challenge.passLife
		}
		return func(i int) int64 { return p.Most(i, min(p.Limit(i).Window, life)) }
	}
	fleet := func(p *limiter.Policy) gain {
		if e.forgets {
			return func(int) int64 { return math.MaxInt64 }
		}
		if e.hearing { // what each of the others may have admitted unheard comes to it
			bought := t.pass != nil && p == t.pass.policy
			return func(i int) int64 {
				if t.unit(i) != "" { // a request may cost all of it
					return times(instances, one(p)(i))
				}
				return one(p)(i) + (instances-1)*gossip.Slack(p.Limit(i).Quota, instances, bought)
			}
		}
		return func(i int) int64 { return times(instances, one(p)(i)) }
	}

	if x := e.exact; x != nil {
		counted := gain(func(i int) int64 { return limiter.LimitAs[limiter.Limit](t.exact.Limit(i)).Most(t.limit(i).Window) })
		add("counted", "whatever it sends", counted)
		outage := counted
		if x.Outage == FailOpen || x.Contended == FailOpen {
			outage = counted.and(func(i int) int64 { return standsIn(t.exact.Limit(i), fleet(t.fallback)(i)) })
		}
		add("outage", "the same, and the counter does not answer", outage)
		add("net48", wide+", each /64 a client", func(i int) int64 { return times(1<<16, counted(i)) })
		return all
	}

	c, first := e.challenge, t.policy
	free, free48 := fleet(t.policy), fleet(t.net48)
	switch {
	case c == nil || c.mode == EveryRequest && c.work == 0:
	case c.mode == EveryRequest, c.mode == Newcomers && t.passHolds(): // else what is too dear for a pass is had without one
		free, free48 = none, none
	}
	if c.sellsTallies() && c.mode == Newcomers {
		first = t.pass.policy
	}
	if e.transport.kind != MemoryOnly {
		add("echoes", "echoes its newest token", one(first))
	}
	add("drops", "drops its tokens, or sends requests at once", free)
	if t.room != nil {
		add("", "the same, and waits in the waiting room", free.and(fleet(t.room.policy)))
	}
	if c == nil || c.mode == EveryRequest && c.work == 0 {
		add("net48", wide, free48)
		return all
	}
	// What work adds, from an address or a network that is expected to hide this many crowds. A tally that is shown in
	// the window was bought in it, or in the life of a tally before.
	works := func(free, shared gain, crowds, seconds int64) gain {
		work := seconds * coreHashes
		if c.mode == EveryRequest {
			shown := instances // how often a proof is good
			switch {
			case e.forgets:
				shown = math.MaxInt64
			case e.hearing:
				shown = 1
			}
			return func(i int) int64 {
				if t.unit(i) != "" {
					return shared(i) // a proof buys one request, whatever that costs
				}
				return min(shared(i), times(work/c.work, shown))
			}
		}
		return free.and(func(i int) int64 {
			span := int64((t.limit(i).Window + c.passLife) / time.Second)
			sellers, unheard := instances, int64(0)
			if e.hearing {
				sellers, unheard = 1, instances-1
			}
			return times(c.prices.Most(sellers, crowds, span, work)+unheard, fleet(t.pass.policy)(i))
		})
	}
	for _, seconds := range []int64{1, 60, 3600} {
		key := ""
		if seconds == 1 {
			key = "works"
		}
		add(key, "works for "+span.Text(time.Duration(seconds)*time.Second)+" of a core", works(free, fleet(t.policy), 1, seconds))
	}
	add("", wide+", and works for 1 s", works(free48, fleet(t.net48), crowds48, 1))
	return all
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
