// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

// findings are what a run has seen: plain numbers, which rowsOf judges.
type findings struct {
	interrupted                      bool
	length                           time.Duration
	rounds, decisions                int64
	reconfigured, led, dropped       int64
	kills, steps, hangUps            int64
	forged                           int64
	busy, atOnce, worked, moved      int64
	forgedRate                       float64
	explainedTokens                  int64
	tokenErrors, unjust, excess      judge.Found
	broken, lostSlots, unanswered    judge.Found
	trouble                          judge.Found
	servedAtOnce                     int64
	worst                            map[string]reached
	exact                            map[string]ledgerFindings
	quiet, flood                     phaseFindings
	heap, goroutines                 judge.Series
	goroutinesBefore, goroutinesLeft int
}

type phaseFindings struct {
	rounds, planned, admitted int64
	p50, p99                  time.Duration
	cpu                       [3]time.Duration // quartiles
}

// What is allowed, where it is not nothing.
const (
	// heapGrowth is for what comes and goes: connections, what is in flight. A leak of 50
	// bytes a request is more, in five minutes. A run of less than growthLength has so few rounds that
	// its second half goes from the quiet to the flood: there it may be growthShort times as much.
	heapGrowth       = 4 << 20
	goroutinesGrowth = 24
	growthShort      = 4
	growthLength     = time.Minute
	// cpuFactor is so loose because the two share caches and a memory bus. What it is there for is work
	// that grows with the flood.
	cpuFactor = 4
	cpuFloor  = 50 * time.Microsecond
	cpuLength = time.Minute
)

// These two kinds of bounds must have been looked at: that of a farm which shows each of its tallies everywhere, and
// that of all addresses together.
const (
	farmed = "farms on /" + form + ", " + string(bought)
	rushed = withoutWork + " on /" + busy
)

// rowsOf makes the table of what was found.
func rowsOf(f findings) (rows []judge.Row) {
	none := func(what string, x judge.Found) {
		rows = append(rows, judge.None(what, x))
	}
	say := func(what, before, after string) {
		rows = append(rows, judge.Say(what, before, after))
	}
	least := func(what string, n, least int64) {
		rows = append(rows, judge.AtLeast(what, n, least, f.interrupted))
	}
	say("rounds; decisions", "", fmt.Sprintf("%d; %d", f.rounds, f.decisions))
	least("configurations, of every policy and instance", f.reconfigured, 3)
	least("secrets put first; dropped", f.led, 1)
	least("secrets dropped", f.dropped, 1)
	least("Redis killed", f.kills, 1)
	least("clocks stepped", f.steps, 1)
	least("slow clients hung up", f.hangUps, 1)
	least("forged requests", f.forged, 1)
	least("/busy: newcomers let in without work", f.atOnce, 1)
	least("/busy: newcomers let in with work, while it is busy", f.worked, 1)
	least("/busy: instances found busy", f.busy, 1)
	least("/form: holders sold a tally where their share was used up", f.moved, 1)

	none("honest: refused with room", f.unjust)
	none("honest: admitted without room", f.excess)
	none("honest: a token not accepted", f.tokenErrors)
	say("the same, ended while a clock was wrong", "", fmt.Sprint(f.explainedTokens))
	none("honest: lost, or a body cut", f.broken)
	none("servers: lines logged", f.trouble)
	none("slots that did not come back", f.lostSlots)
	rows = append(rows, judge.Row{What: "served at once, most", After: fmt.Sprint(f.servedAtOnce), Allowed: fmt.Sprintf("%d, reached", atOnce), OK: f.servedAtOnce == atOnce || f.interrupted && f.servedAtOnce < atOnce})
	for _, kind := range slices.Sorted(maps.Keys(f.worst)) {
		r := f.worst[kind]
		rows = append(rows, judge.Row{What: "admitted by an instance in a window, most: " + kind, After: fmt.Sprint(r.admitted), Allowed: fmt.Sprint(r.bound), OK: r.over == 0 && r.admitted <= r.bound})
	}
	least("identities' bounds looked at, kinds", int64(len(f.worst)), 10)
	for _, kind := range []string{farmed, rushed} {
		least("looked at: "+kind, f.worst[kind].admitted, 1)
	}

	for _, policy := range slices.Sorted(maps.Keys(f.exact)) {
		x := f.exact[policy]
		least("/"+policy+": acknowledged", x.acknowledged, 1)
		least("/"+policy+": accounts compared with Redis", x.checked, 1)
		none("/"+policy+": acknowledged, and not in Redis", judge.Found{N: x.lost})
		none("/"+policy+": in Redis, and never charged", judge.Found{N: x.invented})
		rows = append(rows, judge.Row{
			What: "/" + policy + ": acknowledged to one, most", After: fmt.Sprint(x.most), Allowed: fmt.Sprintf("%d, reached", exactQuota),
			OK: x.overQuota == 0 && (x.most == exactQuota || f.interrupted && x.most < exactQuota),
		})
		none("/"+policy+": admitted beyond what an outage permits", judge.Found{N: x.overOutage})
		none("/"+policy+": refused by a counter that had room", judge.Found{N: x.unjust})
		none("/"+policy+": no answer, though Redis stood", judge.Found{N: x.unexplained})
		say("/"+policy+": no answer in outages; decided without it, to one at most; load", "", fmt.Sprintf("%d; %d, %d; %d", x.unknown, x.fellBack, x.mostFellBack, x.load))
	}
	none("instances that did not have Redis back", f.unanswered)

	q, l := f.quiet, f.flood
	perRound := func(p phaseFindings) string { return fmt.Sprintf("%d of %d in %d", p.admitted, p.planned, p.rounds) }
	rows = append(rows, judge.Row{
		What: "steady clients, quiet and flood: admitted of planned, in rounds", Before: perRound(q), After: perRound(l), Allowed: "all, as many a round",
		OK: q.admitted == q.planned && l.admitted == l.planned &&
			(f.interrupted || q.rounds > 0 && l.rounds > 0 && q.planned > 0 && q.admitted*l.rounds == l.admitted*q.rounds),
	})
	if q.cpu[1] > 0 && l.cpu[1] > 0 {
		limit := max(cpuFactor*q.cpu[1], q.cpu[1]+cpuFloor)
		r := judge.Row{
			What: "CPU of a steady request, quiet and flood: quartiles", Before: fmt.Sprint(q.cpu), After: fmt.Sprint(l.cpu),
			Allowed: fmt.Sprintf("median %s: %d times", limit, cpuFactor), OK: l.cpu[1] <= limit,
		}
		if f.length < cpuLength { // one busy neighbour is all of it
			r.Allowed, r.OK, r.Report = "", true, true
		}
		rows = append(rows, r)
	}
	say("p50 of the same, with the network", fmt.Sprint(q.p50), fmt.Sprint(l.p50))
	say("p99", fmt.Sprint(q.p99), fmt.Sprint(l.p99))
	say("forged requests a second, in a flood", "", fmt.Sprintf("%.0f", f.forgedRate))

	grows := func(what, unit string, s judge.Series, per float64, allowed float64) {
		if f.length < growthLength {
			allowed *= growthShort
		}
		rows = append(rows, judge.Row{
			What: what, Before: fmt.Sprintf("%.1f%s", s.Quarter(0.5)/per, unit), After: fmt.Sprintf("%.1f%s (%+.2f)", s.Quarter(0.75)/per, unit, s.Growth()/per),
			Allowed: fmt.Sprintf("%+.1f%s", allowed/per, unit), OK: s.Growth() <= allowed,
		})
	}
	grows("live heap, third and fourth quarter (slope)", " MiB", f.heap, 1<<20, heapGrowth)
	grows("goroutines, third and fourth quarter (slope)", "", f.goroutines, 1, goroutinesGrowth)
	rows = append(rows, judge.Row{
		What: "goroutines before, and when all is closed", Before: fmt.Sprint(f.goroutinesBefore), After: fmt.Sprint(f.goroutinesLeft),
		Allowed: fmt.Sprint(f.goroutinesBefore), OK: f.goroutinesLeft <= f.goroutinesBefore,
	})
	return rows
}

// write writes the table, and after it what did not hold.
func write(w io.Writer, f findings, rows []judge.Row) error {
	fmt.Fprintf(w, "%d instances, %s", instances, f.length.Round(time.Second))
	if f.interrupted {
		fmt.Fprint(w, ", interrupted")
	}
	fmt.Fprint(w, "; race detector: ", race, ".\n\n")
	return judge.Write(w, rows)
}
