// SPDX-License-Identifier: Apache-2.0

// Command lab plays attackers and honest clients against this library, and counts what they get beside what
// docs/bounds.md promises.
//
//	go run ./proof/lab attack             every attacker against real servers behind a real proxy, one row after the other
//	go run ./proof/lab attack -without X  the same with a defence broken, which must be found out
//	go run ./proof/lab attack -for 1h     the rows again and again, under the race detector, while secrets and policies change
//	go run ./proof/lab sim                tables of what attackers and honest clients get, by a clock that is moved by hand; -update DIRECTORY
//	go run ./proof/lab price              tables of what a tally costs and is worth
//
// A further verb, serve, is one server: attack starts the lab with it.
//
// Without a verb it is attack. All is on the loopback network, where each client has an address of its own. The status is 1
// if something was not kept: more was admitted than may be, or an honest client was refused that had room. It is 2 if the
// lab could not do its work.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/tallystick/tallystick/proof/lab/house"
	"github.com/tallystick/tallystick/proof/lab/price"
	"github.com/tallystick/tallystick/proof/lab/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // the second one ends the process
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// A verb is a command of the lab. It reports whether all promises were kept.
type verb func(ctx context.Context, args []string, stdout, stderr io.Writer) (held bool, err error)

var verbs = map[string]verb{
	"attack": attack, "price": price.Run, "sim": sim.Run,
	"serve": func(ctx context.Context, _ []string, _, _ io.Writer) (bool, error) {
		return true, house.Serve(ctx, os.Stdin, os.Stdout)
	},
}

// run is main, and returns its status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := "attack"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	held, err := false, fmt.Errorf("there are %s", strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
	if do := verbs[name]; do != nil {
		held, err = do(ctx, args, stdout, stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "lab: %s: %v\n", name, err)
		return 2
	case !held:
		return 1
	}
	return 0
}

// chosen returns the rows of these names, with commas, or all.
func chosen(names string) (some []row, err error) {
	all, wanted := rows(), strings.Split(names, ",")
	if names == "" {
		return all, nil
	}
	for _, r := range all {
		if i := slices.Index(wanted, r.name); i >= 0 {
			some, wanted = append(some, r), slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("-rows: there is no row %q", wanted[0])
	}
	return some, nil
}

// attack plays the rows.
func attack(ctx context.Context, args []string, stdout, stderr io.Writer) (held bool, err error) {
	f, sc := flag.NewFlagSet("attack", flag.ContinueOnError), whole
	f.BoolFunc("short", "fewer instances, smaller quotas, less work: under 45 seconds", func(string) error {
		sc = short
		return nil
	})
	f.BoolFunc("long", "the rows of peers alone: a hundred deploys and kills, what stands still for 20 s, a list that is 30 s late", func(string) error {
		sc = long
		return nil
	})
	only := f.String("rows", "", "play these `rows` alone, by their names, with commas")
	instances := f.Int("instances", 0, "`how many`, where not as many as the scale has")
	soaks := f.Duration("for", 0, "a soak of this `length`: the rows that need no peers again and again, and some all the time, under the race detector, while secrets and policies change")
	without := f.String("without", "", "break this `defence`: memory, merge, price, strike, binding, trusted-proxies, inherit, hearing")
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		return false, err
	}
	if f.NArg() > 0 {
		return false, fmt.Errorf("what is %q?", f.Arg(0))
	}
	sc.instances = cmp.Or(*instances, sc.instances)
	broken, err := house.Named(*without)
	if err != nil {
		return false, err
	}
	chosen, err := chosen(*only)
	if peers := sc.rounds == long.rounds; *only == "" && (peers || *soaks > 0) {
		chosen = slices.DeleteFunc(chosen, func(r row) bool { return (r.route.Parts > 0) != peers })
	}
	if err == nil {
		err = house.Stands()
	}
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "tallystick-lab")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	made, err := house.Build(ctx, dir, broken, *soaks > 0)
	if err != nil {
		return false, err
	}
	s := soak{operator: operator{dir: dir, rows: chosen, sc: sc, secrets: []string{secret()}}, long: *soaks}
	if err := s.open(ctx, made); err != nil {
		return false, err
	}
	defer s.servers.Stop()
	var mu sync.Mutex
	results := map[string]*result{}
	err = s.rounds(ctx, func(ctx context.Context, number, pass int, on func() bool) error {
		r := chosen[number]
		if pass == 0 {
			mu.Lock() // rows that go on meanwhile begin at once
			fmt.Fprintf(stderr, "attack: row %d of %d, %s\n", number+1, len(chosen), r.name)
			mu.Unlock()
		}
		got, err := play(ctx, s.servers, sc, r, number, pass, on)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if was := results[r.name]; was == nil || was.holds() {
			results[r.name] = got
		}
		return nil
	})
	if err != nil && ctx.Err() == nil { // the table of a soak that is ended has what was seen
		return false, err
	}
	faults := append(s.servers.End(), s.grown()...)
	held, all := len(faults) == 0, []*result(nil)
	for _, r := range chosen {
		if got := results[r.name]; got != nil {
			held, all = held && got.holds(), append(all, got)
		}
	}
	return held, writeTable(stdout, sc, all, faults)
}
