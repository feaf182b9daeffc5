// SPDX-License-Identifier: Apache-2.0

package sim

// A bound is a row of the table of docs/bounds.md. The package documentation of middleware
// has the same rows, and the README some of them.
type bound struct {
	client, admitted string
	test             string // of middleware
	simulated        bool   // a table of docs/simulation.md plays it
	readme           bool
}

// rows are all bounds that are printed.
func rows() []bound {
	return []bound{
		{"echoes the newest token, one request after another, any number of instances", "L", "TestEchoingClientOnThreeInstances", true, true},
		{"the same, B requests at once", "min(B, N+C)·L, if it keeps the newest of the tokens; else (N+C)·L", "TestSixParallelClientsWithOneCookieJar", true, false},
		{"sends no token, or an old one; no proof of work is configured", "(N+C)·L", "TestClientsThatDoNotEcho", true, true},
		{"the same, where work buys more (`WhenExhausted`)", "(N+C)·L·(1+F)", "TestThreatsOfProofs", true, false},
		{"the same, where work comes first (`Newcomers`)", "(N+C)·L·F", "TestThreatsOfProofs", true, false},
		{"the same, where each request needs a proof (`EveryRequest`)", "min((N+C)·L, (N+C)·S)", "TestThousandRequestsWithOneProof", true, false},
		{"waits instead of working, where the waiting room is open", "+ (N+C)·max(1, L/5)", "TestThreatsOfTheWaitingRoom", true, false},
		{"holds a whole IPv6 /56, or a whole /48", "(N+C)·8·L, or (N+C)·64·L, before work", "TestThreatsOfManyAddresses", true, false},
		{"the same, and works", "+ (N+C)·L·F, where F is what 2 addresses can buy, or what 8 can", "TestWholeNetworksThatWork", true, false},
		{"at once, with `Concurrency` (`MaxHold` H, the oldest request has the age A)", "N·(1+F)·Max·(1 + A/H); with `CancelHeld` N·(1+F)·Max", "TestIdleRequestsHoldASlotNoLongerThanMaxHold", false, false},
		{"the same on an exact route", "Max; in an outage with `FailOpen` N·Max", "TestSlotsOfAllInstances", false, false},
		{"on an exact route", "L; in an outage with `FailOpen`, + (N+C)·max(1, L/`Instances`)", "TestExactQuotaIsOneForAllInstances", true, true},
		{"works, where that comes first only while an instance is crowded (`WhenCrowded`)", "(N+C)·L·(1+F), whatever the load was", "TestBoundWhenCrowded", false, false},
		{"holds many IPv4 addresses, or unrelated networks", "L for each", "TestThreatsOfFloods", false, false},
		{"the same, and proves no work, with `WhenCrowded` and `CrowdedPerSecond` R, in t seconds", "all together (N+C)·R·(t + 10), and one each time that an instance gets crowded", "TestAllThatACrowdGetsWithoutWork", false, false},
		{"has its costs settled afterwards", "+ what its requests under way were estimated too low", "TestSettleBound", false, false},
		{"fails, where a limit counts failures alone", "(N+C)·L failures; L requests under way at once on an instance", "TestOutcomeOfAThousandWrongPasswords", false, false},
		{"new while the memory is full", "(N+C)·L; may be refused early", "TestMemoryFull", false, false},
		{"sends no token where `InsecureNoMemory` is set", "**not limited**", "TestWithoutMemory", false, false},
		{"sends CORS preflights (`OPTIONS`, no credentials, no body)", "**not limited**: mount handlers with a method", "TestThreatsOfRequests", false, false},
	}
}

// boundsTables are the table of docs/bounds.md and that of the README.
func boundsTables() []Table {
	all := Table{Name: "bounds", Page: "docs/bounds.md", Head: []string{"client", "requests admitted", "shown by", "and"}, Words: true}
	few := Table{Name: "bounds", Page: "README.md", Head: []string{"client", "requests admitted"}, Words: true}
	for _, b := range rows() {
		also := ""
		if b.simulated {
			also = "simulated"
		}
		all.Rows = append(all.Rows, Row{true, func() []string { return []string{b.client, b.admitted, "`" + b.test + "`", also} }})
		if b.readme {
			few.Rows = append(few.Rows, Row{true, func() []string { return []string{b.client, b.admitted} }})
		}
	}
	return []Table{all, few}
}

// Tables are all that is made here.
func Tables(o Options) []Table {
	return append(boundsTables(),
		admittedTable(o), thousandTable(o), yieldTable(o), crowdsTable(o), quotasTable(o), griefTable(o), dayTable(o),
		fillingTable(o))
}
