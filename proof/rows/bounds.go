// SPDX-License-Identifier: Apache-2.0

// Package rows has what is promised, a row for each client: what it gets, where that is shown, and, of those that a
// client can play alone, how it is played against a fleet, beside the formula. A short test plays the rows, and the
// simulation prints them.
package rows

import (
	"strings"

	"github.com/tallystick/tallystick/proof/pages"
)

// A Bound is a row of the table of docs/bounds.md. The README and the package documentation
// of middleware have some of them.
type Bound struct {
	Client, Admitted string
	Test             string
	Also             Also
	Readme           bool
}

// Also is what a bound has beside a test.
type Also struct {
	Simulated bool   // a table of proof/lab/README.md plays it
	World     string // with which names of worlds of proof/model begin, which look at every interleaving
	Proof     string // the words with which docs/proof.md begins the proof
}

// Bounds are all that are printed.
func Bounds() []Bound {
	const more, atOnce = "And Tallystick promises no more.", "B requests at once."
	return []Bound{
		{"echoes the newest token, one request after another, any number of instances", "L", "TestEchoingClientOnThreeInstances", Also{true, "one that echoes", more}, true},
		{"the same, B requests at once", "(N+C)·L; if each costs 1 and it keeps the token of the request sent last, at most B·L + B−1", "TestRequestsAtOnce", Also{true, "one that echoes the answer to what it sent last", atOnce}, false},
		{"sends no token, or an old one; no proof of work is configured", "(N+C)·L", "TestClientsThatDoNotEcho", Also{true, "any clients of one address", more}, true},
		{"the same, where work buys more (`WhenExhausted`)", "(1+F)·(N+C)·L", "TestThreatsOfProofs", Also{true, "any, `WhenExhausted`", more}, false},
		{"the same, where work comes first (`Newcomers`)", "F·(N+C)·L", "TestThreatsOfProofs", Also{true, "any, `Newcomers`", more}, false},
		{"the same, where each request needs a proof (`EveryRequest`)", "min((N+C)·L, (N+C)·S)", "TestEveryRequestAdmitsWhatIsShown", Also{true, "any, `EveryRequest`, S = 3", more}, false},
		{"waits instead of working, where the waiting room is open", "+ (N+C)·max(1, L/5)", "TestThreatsOfTheWaitingRoom", Also{Simulated: true}, false},
		{"holds a whole IPv6 /56, or a whole /48", "(N+C)·8·L, or (N+C)·64·L, before work", "TestThreatsOfManyAddresses", Also{true, "any, of three addresses", ""}, false},
		{"the same, and works", "+ F·(N+C)·L, where F is what 2 addresses can buy, or what 8 can", "TestWholeNetworksThatWork", Also{true, "three addresses of a /48 that buy", ""}, false},
		{"at once, with `Concurrency` (`MaxHold` H, the oldest request has the age A)", "N·(1+F)·Max·(1 + A/H); with `CancelHeld` N·(1+F)·Max", "TestIdleRequestsHoldASlotNoLongerThanMaxHold", Also{}, false},
		{"the same on an exact route", "Max; in an outage with `FailOpen` N·Max", "TestSlotsOfAllInstances", Also{}, false},
		{"on an exact route", "L; in an outage with `FailOpen`, + (N+C)·max(1, L/`Instances`)", "TestExactQuotaIsOneForAllInstances", Also{Simulated: true}, true},
		{"the same, by the calendar", "L; in an outage with `FailOpen`, + (N+C)·(2 + d)·max(1, L/`Instances`), by sliding windows of 23 h, 167 h or 28 days; d is 2/23, 2/167 or 73/672", "TestOutageOfACalendar", Also{}, false},
		{"on an exact route whose counter is the memory of one process, which dies D times", "L·(1+D)", "TestDeathOfTheProcessThatCounts", Also{}, false},
		{"works, where that comes first only while an instance is busy (`WhenBusy`)", "(1+F)·(N+C)·L, whatever the load was", "TestBoundWhenBusy", Also{}, false},
		{"holds many IPv4 addresses, or many IPv6 /48", "(N+C)·L for each address, (N+C)·64·L for each /48, before work", "TestManyAddresses", Also{}, false},
		{"the same, and proves no work, with `WhenBusy` and `BusyPerSecond` R, in t seconds", "all together (N+C)·R·(t + 10), of one IPv4 /16 or IPv6 /29 a quarter of that, and one each time that an instance gets busy; beside the waiting room, and what an address or /48 sends above a sixteenth of R", "TestAllThatStrangersGetWithoutWork", Also{}, false},
		{"has its costs settled afterwards", "+ the amount by which its requests under way were estimated too low, for every algorithm", "TestSettleBound", Also{World: "one that drops; requests may"}, false},
		{"is refused by a policy inside of this one", "no more: what [comes back](api.md#a-limit-for-everybody) was not admitted", "TestTraces", Also{}, false},
		{"fails, where a limit counts failures alone", "(N+C)·L failures; L requests under way at once on an instance", "TestOutcomeOfAThousandWrongPasswords", Also{}, false},
		{"new while the memory is full", "(N+C)·L; may be refused early", "TestMemoryFull", Also{}, false},
		{"with `FixedWindow`, while clocks differ by the permitted skew", "2·(N+C)·L − 1 in one window of the true time", "TestFixedWindowOfTwoClocks", Also{}, false},
		{"sends no token where `InsecureNoMemory` is set", "**not limited**", "TestWithoutMemory", Also{}, false},
		{"sends CORS preflights (`OPTIONS`, no credentials, no body)", "**not limited**: mount handlers with a method", "TestThreatsOfRequests", Also{}, false},
	}
}

// String names what there is.
func (a Also) String() string {
	var all []string
	for i, has := range []bool{a.Simulated, a.World != "", a.Proof != ""} {
		if has {
			all = append(all, []string{"simulated", "model-checked", "proved"}[i])
		}
	}
	return strings.Join(all, ", ")
}

// Tables are the tables of bounds.md and of the README.
func Tables() []pages.Made {
	all := pages.Made{Name: "bounds", Page: "docs/bounds.md", By: "make bounds", Head: []string{"client", "requests admitted", "tested by", "and"}, Words: true}
	few := pages.Made{Name: "bounds", Page: "README.md", By: "make bounds", Head: []string{"client", "requests admitted"}, Words: true}
	for _, b := range Bounds() {
		all.Add(true, func() []any { return []any{b.Client, b.Admitted, "`" + b.Test + "`", b.Also} })
		if b.Readme {
			few.Add(true, func() []any { return []any{b.Client, b.Admitted} })
		}
	}
	return []pages.Made{all, few}
}
