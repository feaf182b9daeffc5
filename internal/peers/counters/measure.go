// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// A Plan says what [Measure] measures.
type Plan struct {
	Counters []Counter
	Keys     int   // beside the hot one
	Callers  []int // in ascending order
	Rounds   int

	// For is how long all of it may take. The slices of time are what that leaves.
	For time.Duration

	// Dir is where files are made, on the disk that is meant.
	Dir string
}

// rest is for how long nothing is done, to see what others do.
const rest = 100 * time.Millisecond

// Measure measures all counters of a plan and writes what it finds to out, as benchmarks
// are written. All are open all the time, hold all keys, and take turns: each load of
// each round is a slice of time of every counter, so that a busy moment of the machine
// hits all of them alike.
func Measure(ctx context.Context, p Plan, out, progress io.Writer) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp(p.Dir, "counters-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	hot, keys := []string{"hot"}, make([]string, p.Keys)
	for i := range keys {
		keys[i] = "customer-" + strconv.Itoa(i)
	}
	most := p.Callers[len(p.Callers)-1]
	var all []*seated
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, c := range p.Counters {
		fmt.Fprintf(progress, "%s     %s: %d keys\n", time.Since(began).Round(time.Second), c.Name, len(keys))
		s, err := seat(c, dir, hot, keys, most)
		if err != nil {
			return err
		}
		all = append(all, s)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, s := range all {
		if err := writeSizes(out, s, len(keys)); err != nil {
			return err
		}
	}
	var loads []load
	for _, k := range [][]string{hot, keys} {
		for _, n := range p.Callers {
			loads = append(loads, load{k, n})
		}
	}
	var longer time.Duration // than it was to be, each round before
	for round := range p.Rounds {
		r := rotation{all: all, loads: loads, dir: dir, out: out}
		started, each := time.Now(), (p.For-time.Since(began))/time.Duration(p.Rounds-round)
		r.shareOut(each - longer)
		fmt.Fprintf(progress, "%s %3d%% counters, round %d of %d, slices of %s\n", time.Since(began).Round(time.Second),
			100*round/p.Rounds, round+1, p.Rounds, r.slice.Round(time.Millisecond))
		if err := r.run(ctx, round); err != nil {
			return err
		}
		longer += time.Since(started) - each
	}
	return nil
}

// A rotation is one round: every load of every counter.
type rotation struct {
	all   []*seated
	loads []load
	dir   string
	out   io.Writer
	slice time.Duration // of one counter under one load, and of the disk
}

// shareOut divides the time of a round.
func (r *rotation) shareOut(each time.Duration) {
	each -= rest * time.Duration(len(r.loads))
	parts := len(r.loads)*len(r.all)*7/6 + 2 // with what warms it up, the disk and the loop
	r.slice = max(each/time.Duration(parts), 5*time.Millisecond)
}

func (r *rotation) run(ctx context.Context, round int) error {
	for _, l := range r.loads {
		if others, ok := busy(rest); ok {
			if err := write(r.out, "Others", 1, figure{others, "share"}); err != nil {
				return err
			}
		}
		for i := range r.all {
			// Another one begins in each round.
			s := r.all[(i+round)%len(r.all)]
			if err := ctx.Err(); err != nil {
				return err
			}
			m, err := l.slice(s.Opened, r.slice)
			if err != nil {
				return fmt.Errorf("%s, %d keys, %d callers: %w", s.Name, len(l.keys), l.callers, err)
			}
			if err := writeSample(r.out, Benchmark(s.Name, len(l.keys), l.callers), m); err != nil {
				return err
			}
		}
	}
	h, err := measureDisk(r.dir, r.slice)
	if err != nil {
		return err
	}
	if err := write(r.out, "Append", h.n, figure{float64(h.quantile(0.5)), "ns/op"}, figure{float64(h.quantile(0.99)), "p99-ns/op"}); err != nil {
		return err
	}
	nothing := &Opened{Take: func(string) (bool, error) { return true, nil }}
	m, err := load{r.loads[0].keys, 1}.slice(nothing, r.slice)
	if err != nil {
		return err
	}
	return writeSample(r.out, "Asking", m)
}
