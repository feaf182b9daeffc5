// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// findings are what a run has seen.
type findings struct {
	oracle      *court.Oracle
	interrupted bool
	length      time.Duration
	rounds      int64

	Reconfigured court.Count `what:"configurations, of every policy and instance" least:"3"`
	Led          court.Count `what:"secrets put first" least:"1"`
	Dropped      court.Count `what:"secrets dropped" least:"1"`
	Steps        court.Count `what:"clocks stepped" least:"1"`
	HangUps      court.Count `what:"slow clients hung up" least:"1"`
	Forged       court.Count `what:"forged requests" least:"1"`
	Restarts     court.Count `what:"instances replaced" least:"1"`
	Refused      court.Count `what:"files of policies that were broken, and refused" least:"1"`
	Cut          court.Count `what:"bodies cut, streams reset" least:"1"`

	NoAnswer  court.Count `what:"honest: no answer, though no instance was away"`
	Broken    court.Count `what:"a body or an answer that was cut, a panic, a file taken that is broken"`
	Deaths    court.Count `what:"instances that died, or that left goroutines when they ended"`
	Races     court.Count `what:"races, of processes"`
	Left      court.Count `what:"temporary files left"`
	Trouble   court.Count `what:"servers: lines logged"`
	LostSlots court.Count `what:"slots that did not come back"`

	most             int64 // requests of one client of /slow that were served at once
	quiet, flood     phase
	heap, goroutines Series
}

// A phase is all rounds with a flood, or all without.
type phase struct {
	planned, admitted, rounds court.Count
	computed                  []time.Duration // for each steady request
}

// median returns the duration that half of them do not exceed.
func (p *phase) median() time.Duration {
	slices.Sort(p.computed)
	if len(p.computed) == 0 {
		return 0
	}
	return p.computed[(len(p.computed)-1)/2].Round(time.Microsecond)
}

// What is allowed, where it is not nothing.
const (
	// By how much the last quarter of a run may be above the first one: what comes and goes, such as connections. A leak of 50 bytes
	// a request is more, in five minutes. In the first quarter of a run of less than steadyLength not all clients have come: there it may be
	// growthShort times as much.
	heapGrowth       = 4 << 20
	goroutinesGrowth = 40
	growthShort      = 4
	steadyLength     = time.Minute
	// cpuFactor is so loose because the two share caches and a memory bus. What it is there for is work
	// that grows with the flood.
	cpuFactor = 4
	cpuFloor  = 50 * time.Microsecond
)

// This kind of bounds must have been looked at: for a farm which shows each of its tallies everywhere.
const farmed = "farms on /" + form + ", " + "bought"

// rows makes the table of what was found. What a run did not come to is no failure where it was interrupted.
func (f *findings) rows() []Row {
	rows := []Row{
		Say("rounds; decisions", "", "%d; %d", f.rounds, f.oracle.Decisions.Load()),
		Say("tokens of the honest that ended while a clock was wrong", "", "%d", f.oracle.Ended.Load()),
		{What: "served at once, most", After: fmt.Sprint(f.most), Allowed: fmt.Sprint(atOnce, ", reached"), OK: f.most == atOnce, least: f.most < atOnce},
	}
	rows = append(append(rows, Rows(f.oracle)...), Rows(f)...)
	for _, kind := range slices.Sorted(maps.Keys(f.oracle.Worst)) {
		r := Most("admitted by an instance in a window, most: "+kind, f.oracle.Worst[kind].Admitted, f.oracle.Worst[kind].Bound)
		r.OK = r.OK && f.oracle.Worst[kind].Over == 0
		rows = append(rows, r)
	}
	looked := int64(0)
	if r := f.oracle.Worst[farmed]; r != nil {
		looked = r.Admitted
	}
	rows = append(rows, AtLeast("identities' bounds looked at, kinds", int64(len(f.oracle.Worst)), 10), AtLeast("looked at: "+farmed, looked, 1))
	rows = append(append(rows, f.steady()...), f.grown()...)
	for i := range rows {
		rows[i].OK = rows[i].OK || f.interrupted && rows[i].least
	}
	return rows
}

// happened reports whether all has that must.
func (f *findings) happened() bool {
	return Holds(slices.DeleteFunc(Rows(f), func(r Row) bool { return !r.least }))
}

// steady compares the steady clients, quiet and flood.
func (f *findings) steady() []Row {
	q, l := &f.quiet, &f.flood
	perRound := func(p *phase) string {
		return fmt.Sprintf("%d of %d in %d", p.admitted.Load(), p.planned.Load(), p.rounds.Load())
	}
	rows := []Row{{
		What: "steady clients, quiet and flood: admitted of planned, in rounds", Before: perRound(q), After: perRound(l), Allowed: "all, as many a round",
		OK: q.admitted.Load() == q.planned.Load() && l.admitted.Load() == l.planned.Load() &&
			(f.interrupted || q.rounds.Load() > 0 && l.rounds.Load() > 0 && q.planned.Load() > 0 && q.admitted.Load()*l.rounds.Load() == l.admitted.Load()*q.rounds.Load()),
	}}
	if was, is := q.median(), l.median(); was > 0 && is > 0 {
		limit := max(cpuFactor*was, was+cpuFloor)
		r := Row{
			What: "CPU of a steady request, quiet and flood: median", Before: was.String(), After: is.String(),
			Allowed: fmt.Sprintf("%s: %d times", limit, cpuFactor), OK: is <= limit,
		}
		if f.length < steadyLength { // one busy neighbour is all of it
			r.Allowed, r.OK, r.Report = "", true, true
		}
		rows = append(rows, r)
	}
	return rows
}

// grown looks at what may not grow.
func (f *findings) grown() []Row {
	times := 1.0
	if f.length < steadyLength {
		times = growthShort
	}
	return []Row{f.heap.Flat("live heap", " MiB", 1<<20, heapGrowth*times), f.goroutines.Flat("goroutines", "", 1, goroutinesGrowth*times)}
}

// write writes the table, and after it what did not hold.
func (f *findings) write(w io.Writer, rows []Row) error {
	fmt.Fprintf(w, "%d instances behind nginx, with the race detector, %s", instances, f.length.Round(time.Second))
	if f.interrupted {
		fmt.Fprint(w, ", interrupted")
	}
	fmt.Fprint(w, ".\n\n")
	return Write(w, rows)
}

// Judges reports whether a world is judged by a row.
func Judges(row string) bool {
	return slices.ContainsFunc((&findings{oracle: court.NewOracle(nil)}).rows(), func(r Row) bool { return r.What == row })
}
