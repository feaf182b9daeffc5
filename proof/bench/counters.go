// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// callers are how many ask a counter at once.
var callers = []int{1, 16, 128}

// loadName is what the units of a load begin with: on the hot key, or on all.
func loadName(many bool, callers int) string { return fmt.Sprintf("%t %d ", many, callers) }

// measureCounters measures all exact counters beside each other. All are open all the time, and hold
// all keys.
func measureCounters(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples {
	all, takes := make(samples), make(map[string]take)
	dir := must(os.MkdirTemp(s.dir, "counters-"))
	o.closing(func() error { return os.RemoveAll(dir) })
	measureDisk(dir, all)
	keys := make([]string, s.keys)
	for i := range keys {
		keys[i] = "customer-" + strconv.Itoa(i)
	}
	var services []service
	for _, e := range engines {
		if !s.wants(e.name) {
			continue
		}
		fmt.Fprintf(progress, "%s: %d keys\n", e.name, len(keys))
		at, c := filepath.Join(dir, strings.ReplaceAll(e.name, "/", "-")), new(counter)
		check(os.Mkdir(at, 0o700))
		o.closing(c.close)
		takes[e.name] = c.fill(e.name, func() take { return e.open(c, at) }, at, keys, all)
		services = append(services, service{name: e.name})
		if c.server != nil {
			services[len(services)-1].used = func() map[string]float64 {
				return map[string]float64{"server": c.server.processorTime()}
			}
		}
	}
	var loads []load
	for _, k := range [][]string{{"hot"}, keys} {
		for _, n := range callers {
			loads = append(loads, load{loadName(len(k) > 1, n), n, func(row string, caller, call int) error {
				return passed(takes[row](k[(caller+call*n)*7919%len(k)])) // for another key than the next caller
			}})
		}
	}
	rotate(ctx, s, services, loads, long, all, progress)
	return all
}

func passed(passed bool, err error) error {
	if err == nil && !passed {
		err = errors.New("a call that must pass did not")
	}
	return err
}

// fill opens a counter, has it count one for each key, and notes what that takes. One with files is
// opened anew: a file that is still open may be larger than what it holds.
func (c *counter) fill(name string, open func() take, dir string, keys []string, all samples) take {
	take := open()
	first := take
	if c.first != nil {
		first = c.first
	}
	each(first, slices.Repeat([]string{"hot"}, 128)) // what is there once, such as connections
	held, server := heap(), c.serverBytes()
	each(first, keys)
	n := float64(len(keys))
	all.add(name, "heap", (heap()-held)/n)
	if c.server != nil {
		all.add(name, "server heap", (c.serverBytes()-server)/n)
	}
	if len(must(os.ReadDir(dir))) == 0 {
		return take
	}
	check(c.close())
	size := 0.0
	check(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		size += float64(must(d.Info()).Size())
		return err
	}))
	all.add(name, "disk", size/n)
	return open()
}

func (c *counter) serverBytes() float64 {
	if c.server == nil {
		return 0
	}
	return c.server.bytes()
}

// each takes one for each key, by many callers.
func each(take take, keys []string) {
	errs := make([]error, callers[len(callers)-1])
	var group sync.WaitGroup
	for n := range errs {
		group.Go(func() {
			for i := n; i < len(keys) && errs[n] == nil; i += len(errs) {
				errs[n] = passed(take(keys[i]))
			}
		})
	}
	group.Wait()
	check(errors.Join(errs...))
}

// measureDisk writes pieces of 128 bytes, for which there is room, and puts each on disk: what
// nothing that is durable can do without.
func measureDisk(dir string, all samples) {
	const pieces = 1000
	f := must(os.Create(filepath.Join(dir, "appended")))
	defer f.Close()
	must(f.Write(make([]byte, pieces*128)))
	check(f.Sync())
	var took []float64
	for i := range pieces {
		began := time.Now()
		must(f.WriteAt([]byte{1, 127: 2}, int64(i)*128))
		check(f.Sync())
		took = append(took, float64(time.Since(began)))
	}
	all.add("", "disk", quantile(took, 0.5))
	all.add("", "disk p99", quantile(took, 0.99))
}
