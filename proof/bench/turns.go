// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A player is one row that takes turns: run does n operations, and it alone is measured.
type player struct {
	name          string
	run           func(n int)
	before, after func(n int) error // make ready, and say what was wrong; nil: nothing
}

// Turns are a measurement in short slices, in an order that is drawn anew for each round. What a
// busy machine does to one player it then does to all, and their ratios hold where their times do
// not. A group of rounds gives one figure of each unit for each player; between groups is the
// spread.
type turns struct {
	name  string
	slice int // operations
	open  func(s *settings, o *opening) []player
}

// pace is how many bytes are allocated from one collection to the next, whatever the heap holds: what
// a program allocates in which there is nothing but one limiter of ours, with a memory of 7 MiB. The
// players of one process hold more than each would have in one of its own.
const pace = 8 << 20

// leastRounds is how many there are of a group at least, whatever the time.
const leastRounds = 3

type slice struct {
	cpu       float64 // ns
	bytes     float64 // allocated, as far as is known without stopping the program
	collected bool    // the collector was at work
}

// measure measures players on one processor until their time is up.
func (t *turns) measure(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	all, began := make(samples), time.Now()
	players := t.open(s, o)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(max(1, int(pace*100/m.HeapAlloc)))
	for g := range s.groups {
		each := (long - time.Since(began)) / time.Duration(s.groups-g)
		fmt.Fprintf(progress, "%s: group %d of %d, %s\n", t.name, g+1, s.groups, each.Round(time.Millisecond))
		others := watch()
		t.group(ctx, players, max(1, t.slice/s.part), each, all)
		all.add("", "others", others())
	}
	return all
}

// group adds the figures of one group. A first round makes all players warm, and counts what they
// allocate to the byte, which stops the program and so is not timed.
func (t *turns) group(ctx context.Context, players []player, n int, long time.Duration, all samples) {
	slices := make([][]slice, len(players))
	began := time.Now()
	for round := 0; round <= leastRounds || time.Since(began) < long; round++ {
		for _, i := range rand.Perm(len(players)) {
			p := &players[i]
			check(ctx.Err())
			passes := func(look func(n int) error) {
				if look == nil {
					return
				}
				if err := look(n); err != nil {
					check(fmt.Errorf("%s: %s: %w", t.name, p.name, err))
				}
			}
			passes(p.before)
			if round == 0 {
				bytes, objects := allocated(func() { p.run(n) })
				all.add(p.name, "bytes", bytes/float64(n))
				all.add(p.name, "objects", objects/float64(n))
			} else {
				slices[i] = append(slices[i], timed(func() { p.run(n) }))
			}
			passes(p.after)
		}
	}
	means, perByte := means(slices)
	all.add("", "ns/KiB", perByte*1024)
	for i, p := range players {
		var cpu []float64
		for _, s := range slices[i] {
			cpu = append(cpu, s.cpu/float64(n))
		}
		all.add(p.name, "p10", quantile(cpu, 0.1))
		all.add(p.name, "p50", quantile(cpu, 0.5))
		all.add(p.name, "mean", means[i]/float64(n))
	}
}

// allocated counts what work allocates.
func allocated(work func()) (bytes, objects float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc), float64(after.Mallocs - before.Mallocs)
}

// These are read around a slice: that allocates nothing and stops no goroutine.
var then, now = meters(), meters()

func meters() []metrics.Sample {
	return []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}}
}

func timed(work func()) slice {
	metrics.Read(then)
	cpu := processorTime()
	work()
	used := processorTime() - cpu
	metrics.Read(now)
	return slice{
		cpu:       float64(used),
		bytes:     float64(now[0].Value.Uint64() - then[0].Value.Uint64()),
		collected: now[1].Value.Uint64() != then[1].Value.Uint64() || now[2].Value.Float64() != then[2].Value.Float64(),
	}
}

// means returns what a slice of each player takes, its share of collections included, and how
// much of that there is for each byte. A collection is paid for in the slice in which it happens
// to run and not in those that caused it. So the mean is put together: of the slices without one,
// and of the player's share of what all others took longer, by bytes allocated. The means of a
// group sum up to the processor time that all of its slices took.
func means(players [][]slice) (all []float64, perByte float64) {
	all = make([]float64, len(players))
	bytes, extra, total := make([]float64, len(players)), 0.0, 0.0
	for i, slices := range players {
		var clean, collected, n float64
		for _, s := range slices {
			bytes[i] += s.bytes / float64(len(slices))
			if s.collected {
				collected += s.cpu
			} else {
				clean += s.cpu
				n++
			}
		}
		if n == 0 { // each of them was disturbed; what for cannot be told
			all[i], bytes[i] = collected/float64(len(slices)), 0
			continue
		}
		all[i] = clean / n
		extra += collected - clean/n*(float64(len(slices))-n)
		total += bytes[i] * float64(len(slices))
	}
	if total > 0 {
		perByte = max(0, extra/total)
	}
	for i := range all {
		all[i] += perByte * bytes[i]
	}
	return all, perByte
}
