// SPDX-License-Identifier: Apache-2.0

// Package turns measures what things cost beside each other: in one process, in short
// slices, in an order that is drawn anew for each round. What a busy machine does to one of
// them it then does to all, and their ratios hold where their times do not.
//
// A group of rounds gives one figure of each kind for each player. Between groups is the
// spread: a run has at least five, and what it prints is their median and their range.
//
// The 10th percentile of the slices is what an operation costs where nothing disturbs it. It
// leaves out most slices in which the garbage collector was at work, and so flatters those
// that allocate most. The mean leaves out nothing. A collection is paid for in the slice in
// which it happens to run and not in those that caused it, so the mean is put together: of
// the slices without a collection, and of the player's share of what all others took longer,
// by bytes allocated. The means of a group sum up to the processor time that all of its
// slices took. How dear a byte is depends on how often the collector runs and on what it
// finds: see Plan.Pace.
package turns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"
)

// A Player is one of those that are measured.
type Player struct {
	Name string // as a part of the name of a benchmark

	// Run does n operations. It alone is measured.
	Run func(n int)

	// Before makes ready for that, and After says what was wrong with it. nil is nothing.
	Before, After func(n int) error

	// Cores is how many processors Run may use. 0 is 1.
	Cores int
}

// cores returns how many processors p may use.
func (p *Player) cores() int { return max(1, p.Cores) }

// A Plan says what [Measure] measures.
type Plan struct {
	Kind    string // the first part of the names of the benchmarks
	Players []Player
	Slice   int // operations
	Groups  int
	For     time.Duration // all of it

	// Pace is how many bytes are allocated from one collection to the next, whatever
	// the heap holds. The players of one process hold more than each would have in one of
	// its own, so the collector would come more rarely than it does there. 0 leaves it be.
	Pace uint64
}

type slice struct {
	cpu, wall time.Duration
	bytes     uint64 // allocated, as far as is known without stopping the program
	collected bool   // the collector was at work
}

type record struct {
	slices         []slice
	bytes, objects uint64 // allocated in one slice
}

// Measure lets the players take turns and writes what it finds to out, as benchmarks are
// written: a line for each group and player.
func Measure(ctx context.Context, p Plan, out, progress io.Writer) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	if _, ok := ProcessorTime(); !ok {
		return errors.New("processor time cannot be told on this system")
	}
	if p.Pace > 0 {
		defer debug.SetGCPercent(pace(p.Pace))
	}
	began := time.Now()
	for g := range p.Groups {
		each := (p.For - time.Since(began)) / time.Duration(p.Groups-g)
		fmt.Fprintf(progress, "%s: group %d of %d, %s\n", p.Kind, g+1, p.Groups, each.Round(time.Millisecond))
		others := watch()
		group, err := p.group(ctx, each)
		if err != nil {
			return err
		}
		if err := p.write(out, group, others); err != nil {
			return err
		}
	}
	return nil
}

// pace makes the collector run so often, as far as a percentage of the live heap can, and
// returns the percentage that was.
func pace(bytes uint64) int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return debug.SetGCPercent(max(1, int(100*bytes/m.HeapAlloc)))
}

// leastRounds is how many there are of a group at least, whatever the time: the 10th
// percentile of fewer would be the least of them.
const leastRounds = 3

// group returns the records of all players. A first round makes all of them warm, and
// counts what they allocate to the byte, which stops the program and so is not timed.
func (p *Plan) group(ctx context.Context, long time.Duration) ([]record, error) {
	all := make([]record, len(p.Players))
	began := time.Now()
	m := newMeter()
	for round := 0; round <= leastRounds || time.Since(began) < long; round++ {
		for _, i := range rand.Perm(len(p.Players)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.Players[i].turn(p.Slice, round == 0, m, &all[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Players[i].Name, err)
			}
		}
	}
	return all, nil
}

// turn is one slice of a player, for its record.
func (p *Player) turn(n int, first bool, m *meter, r *record) error {
	if runtime.GOMAXPROCS(0) != p.cores() {
		runtime.GOMAXPROCS(p.cores())
	}
	if p.Before != nil {
		if err := p.Before(n); err != nil {
			return err
		}
	}
	if first {
		r.count(func() { p.Run(n) })
	} else {
		m.start()
		p.Run(n)
		r.slices = append(r.slices, m.stop())
	}
	if p.After != nil {
		return p.After(n)
	}
	return nil
}

// count counts what work allocates.
func (r *record) count(work func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	r.bytes, r.objects = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
}
