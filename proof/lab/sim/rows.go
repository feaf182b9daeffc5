// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"flag"
	"io"
	"strings"

	"github.com/tallystick/tallystick/proof/pages"
)

// A bound is a row of the table of docs/bounds.md. The README and the package documentation
// of middleware have some of them.
type bound struct {
	client, admitted string
	test             string // of middleware
	also             also
	readme           bool
}

// also is what a bound has beside a test.
type also struct {
	simulated bool   // a table of proof/lab/README.md plays it
	world     string // with which names of worlds of proof/model begin, which look at every interleaving
	proof     string // the words with which docs/proof.md begins the proof
}

// rows are all bounds that are printed.
func rows() []bound {
	const more, atOnce = "And Tallystick promises no more.", "B requests at once."
	return []bound{
		{"echoes the newest token, one request after another, any number of instances", "L", "TestEchoingClientOnThreeInstances", also{true, "one that echoes", more}, true},
		{"the same, B requests at once", "(N+C)·L; if each costs 1 and it keeps the token of the request sent last, at most B·L + B−1", "TestRequestsAtOnce", also{true, "one that echoes the answer to what it sent last", atOnce}, false},
		{"sends no token, or an old one; no proof of work is configured", "(N+C)·L", "TestClientsThatDoNotEcho", also{true, "any clients of one address", more}, true},
		{"the same, where work buys more (`WhenExhausted`)", "(1+F)·(N+C)·L", "TestThreatsOfProofs", also{true, "any, `WhenExhausted`", more}, false},
		{"the same, where work comes first (`Newcomers`)", "F·(N+C)·L", "TestThreatsOfProofs", also{true, "any, `Newcomers`", more}, false},
		{"the same, where each request needs a proof (`EveryRequest`)", "min((N+C)·L, (N+C)·S)", "TestEveryRequestAdmitsWhatIsShown", also{true, "any, `EveryRequest`, S = 3", more}, false},
		{"waits instead of working, where the waiting room is open", "+ (N+C)·max(1, L/5)", "TestThreatsOfTheWaitingRoom", also{simulated: true}, false},
		{"holds a whole IPv6 /56, or a whole /48", "(N+C)·8·L, or (N+C)·64·L, before work", "TestThreatsOfManyAddresses", also{true, "any, of three addresses", ""}, false},
		{"the same, and works", "+ F·(N+C)·L, where F is what 2 addresses can buy, or what 8 can", "TestWholeNetworksThatWork", also{true, "three addresses of a /48 that buy", ""}, false},
		{"at once, with `Concurrency` (`MaxHold` H, the oldest request has the age A)", "N·(1+F)·Max·(1 + A/H); with `CancelHeld` N·(1+F)·Max", "TestIdleRequestsHoldASlotNoLongerThanMaxHold", also{}, false},
		{"the same on an exact route", "Max; in an outage with `FailOpen` N·Max", "TestSlotsOfAllInstances", also{}, false},
		{"on an exact route", "L; in an outage with `FailOpen`, + (N+C)·max(1, L/`Instances`)", "TestExactQuotaIsOneForAllInstances", also{simulated: true}, true},
		{"on an exact route that asks a ring of the instances", "L·O, where O processes have owned its key in the window: 1 in quiet; who echoes: L", "TestRingOfInstances", also{world: "any, a ring", proof: "It is admitted L·O times at most."}, false},
		{"works, where that comes first only while an instance is busy (`WhenBusy`)", "(1+F)·(N+C)·L, whatever the load was", "TestBoundWhenBusy", also{}, false},
		{"holds many IPv4 addresses, or many IPv6 /48", "(N+C)·L for each address, (N+C)·64·L for each /48, before work", "TestManyAddresses", also{}, false},
		{"the same, and proves no work, with `WhenBusy` and `BusyPerSecond` R, in t seconds", "all together (N+C)·R·(t + 10), of one IPv4 /16 or IPv6 /29 a quarter of that, and one each time that an instance gets busy; beside the waiting room, and what an address or /48 sends above a sixteenth of R", "TestAllThatStrangersGetWithoutWork", also{}, false},
		{"has its costs settled afterwards", "+ what its requests under way were estimated too low, for every algorithm", "TestSettleBound", also{world: "one that drops; requests may"}, false},
		{"is refused by a policy inside of this one", "no more: what [comes back](api.md#a-limit-for-everybody) was not admitted", "TestTraces", also{}, false},
		{"fails, where a limit counts failures alone", "(N+C)·L failures; L requests under way at once on an instance", "TestOutcomeOfAThousandWrongPasswords", also{}, false},
		{"new while the memory is full", "(N+C)·L; may be refused early", "TestMemoryFull", also{}, false},
		{"with `FixedWindow`, while clocks differ by the permitted skew", "2·(N+C)·L − 1 in one window of the true time", "TestFixedWindowOfTwoClocks", also{}, false},
		{"sends no token where `InsecureNoMemory` is set", "**not limited**", "TestWithoutMemory", also{}, false},
		{"sends CORS preflights (`OPTIONS`, no credentials, no body)", "**not limited**: mount handlers with a method", "TestThreatsOfRequests", also{}, false},
	}
}

// String names what there is.
func (a also) String() string {
	var all []string
	for i, has := range []bool{a.simulated, a.world != "", a.proof != ""} {
		if has {
			all = append(all, []string{"simulated", "model-checked", "proved"}[i])
		}
	}
	return strings.Join(all, ", ")
}

// Tables are all that is made here: those of bounds.md and of the README first.
func Tables(o Options) []pages.Made {
	all := pages.Made{Name: "bounds", Page: "docs/bounds.md", By: madeBy, Head: []string{"client", "requests admitted", "tested by", "and"}, Words: true}
	few := pages.Made{Name: "bounds", Page: "README.md", By: madeBy, Head: []string{"client", "requests admitted"}, Words: true}
	for _, b := range rows() {
		all.Add(true, func() []any { return []any{b.client, b.admitted, "`" + b.test + "`", b.also} })
		if b.readme {
			few.Add(true, func() []any { return []any{b.client, b.admitted} })
		}
	}
	thousand := attackTable(o, "thousand", attacks(), []int{1000}, false)
	thousand.Alone = true
	return []pages.Made{
		all, few, attackTable(o, "admitted", attacks(), sizes, true), thousand,
		yieldTable(o), honestTable(o), griefTable(o), busyTable(o), dayTable(o), fillingTable(o),
	}
}

// Run makes tables, as its arguments say.
func Run(_ context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	o := Options{Seed: Seed}
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.Uint64Var(&o.Seed, "seed", Seed, "where chance begins")
	return pages.Run(flags, args, stdout, stderr, func() []pages.Made { return Tables(o) })
}
