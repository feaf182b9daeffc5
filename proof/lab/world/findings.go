// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tallystick/tallystick/proof/lab/court"
)

// findings are what a run has seen.
type findings struct {
	oracle      *court.Oracle
	exactly     map[string]*court.Exact // by the policy
	interrupted bool
	processes   bool
	length      time.Duration
	rounds      int64

	Reconfigured Count `what:"configurations, of every policy and instance" least:"3"`
	Led          Count `what:"secrets put first" least:"1"`
	Dropped      Count `what:"secrets dropped" least:"1"`
	Kills        Count `what:"Redis killed" least:"1"`
	Steps        Count `what:"clocks stepped" least:"1"`
	HangUps      Count `what:"slow clients hung up" least:"1"`
	Forged       Count `what:"forged requests" least:"1"`
	AtOnce       Count `what:"/busy: newcomers let in without work" least:"1"`
	Worked       Count `what:"/busy: newcomers let in with work, while it is busy" least:"1"`
	Busy         Count `what:"/busy: instances found busy" least:"1"`
	Restarts     Count `what:"instances replaced" least:"1"`
	Refused      Count `what:"files of policies that were broken, and refused" least:"1"`
	Cut          Count `what:"bodies cut, streams reset" least:"1"`

	NoAnswer   court.Complaints `what:"honest: no answer, though no instance was away"`
	Broken     court.Complaints `what:"a body or an answer that was cut, a panic, a file taken that is broken"`
	Deaths     court.Complaints `what:"deaths"`
	Races      court.Complaints `what:"races, of processes"`
	Files      int64            `what:"temporary files left"`
	Trouble    court.Complaints `what:"servers: lines logged"`
	LostSlots  court.Complaints `what:"slots that did not come back"`
	Unanswered court.Complaints `what:"instances that did not have Redis back"`

	most                             int64 // requests of one client of /slow that were served at once
	quiet, flood                     phase
	heap, goroutines                 Series
	goroutinesBefore, goroutinesLeft int
	leaked                           string // the stacks of those that are left, if there are more
}

// A phase is all rounds with a flood, or all without.
type phase struct {
	planned, admitted, rounds Count
	computed                  sample
}

// A sample is some durations of all that were added, each with the same chance: it takes the same memory however many there are.
type sample struct {
	mu   sync.Mutex
	some [4096]time.Duration
	n    int
}

func (s *sample) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n++; s.n <= len(s.some) {
		s.some[s.n-1] = d
	} else if i := rand.IntN(s.n); i < len(s.some) {
		s.some[i] = d
	}
}

// median returns the duration that half of them do not exceed.
func (s *sample) median() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := slices.Sorted(slices.Values(s.some[:min(s.n, len(s.some))]))
	if len(some) == 0 {
		return 0
	}
	return some[(len(some)-1)/2].Round(time.Microsecond)
}

// What is allowed, where it is not nothing.
const (
	// heapGrowth is for what comes and goes: connections, what is in flight. A leak of 50
	// bytes a request is more, in five minutes. A run of less than growthRounds has so few that
	// its second half goes from the quiet to the flood: there it may be growthShort times as much.
	heapGrowth       = 4 << 20
	goroutinesGrowth = 24
	growthShort      = 4
	growthRounds     = 12 * ofCycle
	// By how much the last quarter of a run of processes may be above the first one, and growthShort times as
	// much in a run of less than steadyLength.
	heapMargin       = 4 << 20
	goroutinesMargin = 40
	steadyLength     = time.Minute
	// cpuFactor is so loose because the two share caches and a memory bus. What it is there for is work
	// that grows with the flood.
	cpuFactor = 4
	cpuFloor  = 50 * time.Microsecond
	cpuLength = time.Minute
)

// These two kinds of bounds must have been looked at: for a farm which shows each of its tallies everywhere, and for
// all addresses together.
const (
	farmed = "farms on /" + form + ", " + "bought"
	rushed = court.Everybody + " on /" + busy
)

// rows makes the table of what was found.
func (f *findings) rows() []Row {
	rows := []Row{
		Say("rounds; decisions", "", "%d; %d", f.rounds, f.oracle.Decisions.Load()),
		Say("tokens of the honest that ended while a clock was wrong", "", "%d", f.oracle.Ended.Load()),
		Most("served at once, most", f.most, atOnce, true, f.interrupted),
	}
	rows = append(append(rows, Rows(f.oracle, "", f.interrupted)...), Rows(f, "", f.interrupted)...)
	for _, kind := range slices.Sorted(maps.Keys(f.oracle.Worst)) {
		r := Most("admitted by an instance in a window, most: "+kind, f.oracle.Worst[kind].Admitted, f.oracle.Worst[kind].Bound, false, false)
		r.OK = r.OK && f.oracle.Worst[kind].Over == 0
		rows = append(rows, r)
	}
	rows = append(rows, AtLeast("identities' bounds looked at, kinds", int64(len(f.oracle.Worst)), 10, f.interrupted))
	for _, kind := range []string{farmed, rushed} {
		n := int64(0)
		if r := f.oracle.Worst[kind]; r != nil {
			n = r.Admitted
		}
		rows = append(rows, AtLeast("looked at: "+kind, n, 1, f.interrupted))
	}
	for _, policy := range slices.Sorted(maps.Keys(f.exactly)) {
		x := f.exactly[policy]
		rows = append(rows, Rows(x, "/"+policy+": ", f.interrupted)...)
		rows = append(rows,
			Most("/"+policy+": acknowledged to one, most", x.Most, exactQuota, true, f.interrupted),
			Say("/"+policy+": no answer in outages; decided without it, to one at most; load", "", "%d; %d, %d; %d", x.Unknown, x.Fell, x.MostFell, x.Load))
	}
	return append(append(rows, f.steady()...), f.grown()...)
}

// happened reports whether all has that must.
func (f *findings) happened() bool {
	for x := range fields(f) {
		if n, is := x.value.(*Count); is && n.Load() < x.least {
			return false
		}
	}
	return true
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
	if was, is := q.computed.median(), l.computed.median(); was > 0 && is > 0 {
		limit := max(cpuFactor*was, was+cpuFloor)
		r := Row{
			What: "CPU of a steady request, quiet and flood: median", Before: was.String(), After: is.String(),
			Allowed: fmt.Sprintf("%s: %d times", limit, cpuFactor), OK: is <= limit,
		}
		if f.length < cpuLength { // one busy neighbour is all of it
			r.Allowed, r.OK, r.Report = "", true, true
		}
		rows = append(rows, r)
	}
	return rows
}

// grown looks at what may not grow.
func (f *findings) grown() []Row {
	times := 1.0
	if f.rounds < growthRounds {
		times = growthShort
	}
	goroutines := Most("goroutines before, and when all is closed", int64(f.goroutinesLeft), int64(f.goroutinesBefore), false, false)
	goroutines.Why = f.leaked
	rows := []Row{
		goroutines,
		f.heap.Flat("live heap", " MiB", 1<<20, f.heap.Growth(), heapGrowth*times),
		f.goroutines.Flat("goroutines", "", 1, f.goroutines.Growth(), goroutinesGrowth*times),
	}
	if !f.processes {
		return rows
	}
	if times = 1; f.length < steadyLength {
		times = growthShort
	}
	return append(rows,
		f.heap.Flat("live heap above the first quarter's", " MiB", 1<<20, f.heap.Quarter(0.75)-f.heap.Quarter(0), heapMargin*times),
		f.goroutines.Flat("goroutines above the first quarter's", "", 1, f.goroutines.Quarter(0.75)-f.goroutines.Quarter(0), goroutinesMargin*times))
}

// write writes the table, and after it what did not hold.
func (f *findings) write(w io.Writer, rows []Row) error {
	fmt.Fprintf(w, "%d instances, %s", instances, f.length.Round(time.Second))
	if f.interrupted {
		fmt.Fprint(w, ", interrupted")
	}
	if f.processes {
		fmt.Fprint(w, "; processes behind nginx, with the race detector.\n\n")
	} else {
		fmt.Fprint(w, "; race detector: ", race(), ".\n\n")
	}
	return Write(w, rows)
}

// race says whether the race detector watches.
var race = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return "on"
	}
	return "off"
})

// Judges reports whether a world is judged by a row.
func Judges(row string) bool {
	return slices.ContainsFunc((&findings{oracle: court.NewOracle(nil)}).rows(), func(r Row) bool { return r.What == row })
}
