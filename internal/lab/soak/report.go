// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// findings are what a run has seen: plain numbers, which judge judges.
type findings struct {
	interrupted                      bool
	length                           time.Duration
	rounds, decisions                int64
	reconfigured, led, dropped       int64
	kills, steps, hangUps            int64
	forged                           int64
	crowded, atOnce, worked, moved   int64
	forgedRate                       float64
	explainedTokens                  int64
	tokenErrors, unjust, excess      found
	broken, lostSlots, unanswered    found
	trouble                          found
	servedAtOnce                     int64
	worst                            map[string]reached
	exact                            map[string]ledgerFindings
	quiet, flood                     phaseFindings
	heap, goroutines                 series
	goroutinesBefore, goroutinesLeft int
}

// found is how often something was, and the first.
type found struct {
	n     int64
	first string
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

// A row is a line of the table.
type row struct {
	what, before, after, allowed string
	ok, report                   bool // report: a figure without a bound
	why                          string
}

// judge makes the table of what was found.
func judge(f findings) (rows []row) {
	none := func(what string, x found) {
		rows = append(rows, row{what: what, after: fmt.Sprint(x.n), allowed: "0", ok: x.n == 0, why: x.first})
	}
	say := func(what, before, after string) {
		rows = append(rows, row{what: what, before: before, after: after, ok: true, report: true})
	}
	least := func(what string, n, least int64) {
		rows = append(rows, row{what: what, after: fmt.Sprint(n), allowed: fmt.Sprintf("at least %d", least), ok: f.interrupted || n >= least})
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
	least("/busy: newcomers let in with work, in a crowd", f.worked, 1)
	least("/busy: instances found crowded", f.crowded, 1)
	least("/form: holders sold a tally where their share was used up", f.moved, 1)

	none("honest: refused with room", f.unjust)
	none("honest: admitted without room", f.excess)
	none("honest: a token not accepted", f.tokenErrors)
	say("the same, ended while a clock was wrong", "", fmt.Sprint(f.explainedTokens))
	none("honest: lost, or a body cut", f.broken)
	none("servers: lines logged", f.trouble)
	none("slots that did not come back", f.lostSlots)
	rows = append(rows, row{what: "served at once, most", after: fmt.Sprint(f.servedAtOnce), allowed: fmt.Sprintf("%d, reached", atOnce), ok: f.servedAtOnce == atOnce || f.interrupted && f.servedAtOnce < atOnce})
	for _, kind := range slices.Sorted(maps.Keys(f.worst)) {
		r := f.worst[kind]
		rows = append(rows, row{what: "admitted by an instance in a window, most: " + kind, after: fmt.Sprint(r.admitted), allowed: fmt.Sprint(r.bound), ok: r.over == 0 && r.admitted <= r.bound})
	}
	least("identities' bounds looked at, kinds", int64(len(f.worst)), 10)
	for _, kind := range []string{farmed, rushed} {
		least("looked at: "+kind, f.worst[kind].admitted, 1)
	}

	for _, policy := range slices.Sorted(maps.Keys(f.exact)) {
		x := f.exact[policy]
		least("/"+policy+": acknowledged", x.acknowledged, 1)
		least("/"+policy+": accounts compared with Redis", x.checked, 1)
		none("/"+policy+": acknowledged, and not in Redis", found{n: x.lost})
		none("/"+policy+": in Redis, and never charged", found{n: x.invented})
		rows = append(rows, row{
			what: "/" + policy + ": acknowledged to one, most", after: fmt.Sprint(x.most), allowed: fmt.Sprintf("%d, reached", exactQuota),
			ok: x.overQuota == 0 && (x.most == exactQuota || f.interrupted && x.most < exactQuota),
		})
		none("/"+policy+": admitted beyond what an outage permits", found{n: x.overOutage})
		none("/"+policy+": refused by a counter that had room", found{n: x.unjust})
		none("/"+policy+": no answer, though Redis stood", found{n: x.unexplained})
		say("/"+policy+": no answer in outages; decided without it, to one at most; load", "", fmt.Sprintf("%d; %d, %d; %d", x.unknown, x.fellBack, x.mostFellBack, x.load))
	}
	none("instances that did not have Redis back", f.unanswered)

	q, l := f.quiet, f.flood
	perRound := func(p phaseFindings) string { return fmt.Sprintf("%d of %d in %d", p.admitted, p.planned, p.rounds) }
	rows = append(rows, row{
		what: "steady clients, quiet and flood: admitted of planned, in rounds", before: perRound(q), after: perRound(l), allowed: "all, as many a round",
		ok: q.admitted == q.planned && l.admitted == l.planned &&
			(f.interrupted || q.rounds > 0 && l.rounds > 0 && q.planned > 0 && q.admitted*l.rounds == l.admitted*q.rounds),
	})
	if q.cpu[1] > 0 && l.cpu[1] > 0 {
		limit := max(cpuFactor*q.cpu[1], q.cpu[1]+cpuFloor)
		r := row{
			what: "CPU of a steady request, quiet and flood: quartiles", before: fmt.Sprint(q.cpu), after: fmt.Sprint(l.cpu),
			allowed: fmt.Sprintf("median %s: %d times", limit, cpuFactor), ok: l.cpu[1] <= limit,
		}
		if f.length < cpuLength { // one busy neighbour is all of it
			r.allowed, r.ok, r.report = "", true, true
		}
		rows = append(rows, r)
	}
	say("p50 of the same, with the network", fmt.Sprint(q.p50), fmt.Sprint(l.p50))
	say("p99", fmt.Sprint(q.p99), fmt.Sprint(l.p99))
	say("forged requests a second, in a flood", "", fmt.Sprintf("%.0f", f.forgedRate))

	grows := func(what, unit string, s series, per float64, allowed float64) {
		if f.length < growthLength {
			allowed *= growthShort
		}
		rows = append(rows, row{
			what: what, before: fmt.Sprintf("%.1f%s", s.at(0.5)/per, unit), after: fmt.Sprintf("%.1f%s (%+.2f)", s.at(0.75)/per, unit, s.growth()/per),
			allowed: fmt.Sprintf("%+.1f%s", allowed/per, unit), ok: s.growth() <= allowed,
		})
	}
	grows("live heap, third and fourth quarter (slope)", " MiB", f.heap, 1<<20, heapGrowth)
	grows("goroutines, third and fourth quarter (slope)", "", f.goroutines, 1, goroutinesGrowth)
	rows = append(rows, row{
		what: "goroutines before, and when all is closed", before: fmt.Sprint(f.goroutinesBefore), after: fmt.Sprint(f.goroutinesLeft),
		allowed: fmt.Sprint(f.goroutinesBefore), ok: f.goroutinesLeft <= f.goroutinesBefore,
	})
	return rows
}

// holds reports whether all does.
func holds(rows []row) bool {
	return !slices.ContainsFunc(rows, func(r row) bool { return !r.ok })
}

// write writes the table, and after it what did not hold.
func write(w io.Writer, f findings, rows []row) error {
	fmt.Fprintf(w, "%d instances, %s", instances, f.length.Round(time.Second))
	if f.interrupted {
		fmt.Fprint(w, ", interrupted")
	}
	fmt.Fprint(w, "; race detector: ", race, ".\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tbefore\tafter\tallowed\t")
	for _, r := range rows {
		verdict := "ok"
		switch {
		case !r.ok:
			verdict = "FAILED"
		case r.report:
			verdict = ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.what, r.before, r.after, r.allowed, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if !r.ok {
			fmt.Fprintf(w, "\nFAILED: %s. %s\n", r.what, r.why)
		}
	}
	return nil
}
