// SPDX-License-Identifier: Apache-2.0

// Command bench measures what the middleware costs beside other limiters, and beside the least program
// that does the same, and prints it as Markdown. It is run in its folder, with GOWORK=off:
//
//	go run .
//	go run . -quick
//	go run . -only requests,served -update
//	go run . -only counters -rows '^file$' -span 2m
//
// Its README says what each table is of. -update writes what was measured into the pages, between the
// lines that say which table is there; what was not measured stays. All of it takes twenty minutes, on a
// machine that should have nothing else to do, and needs redis-server. With -quick it
// takes two minutes, for figures that tell only whether it works.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A kind is a part of what is measured, and for how long.
type kind struct {
	name    string
	long    time.Duration
	measure func(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples
}

var kinds = []kind{
	{"requests", 90 * time.Second, func(ctx context.Context, s *settings, o *opening, long time.Duration, progress io.Writer) samples {
		known, first := turns{name: "requests", slice: 1500, open: openKnown}, turns{name: "first", slice: 1500, open: openFirst}
		all := known.measure(ctx, s, o, long*5/6, progress)
		all.join(first.measure(ctx, s, o, long/6, progress))
		return all
	}},
	{"served", 30 * time.Second, (&turns{name: "served", slice: 200, open: openServed}).measure},
	{"population", 2 * time.Minute, measurePopulation},
	{"counters", 7 * time.Minute, measureCounters},
	{"fleet", 4 * time.Minute, measureFleet},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	on, err := onErrand(os.Stdin, os.Stdout)
	if !on {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run reads the command line, measures, and reports.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s := settings{part: 1}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.only, "only", "", "measure these `parts`: requests, served, population, counters, fleet; with commas")
	rows := flags.String("rows", "", "measure rows whose names match this `pattern`, and those that they are compared with")
	flags.DurationVar(&s.span, "span", 0, "measure each part for this `long`")
	flags.IntVar(&s.groups, "groups", 6, "make so many groups of turns")
	flags.IntVar(&s.clients, "clients", 1_000_000, "let a population be of `n` clients")
	flags.BoolFunc("quick", "measure little of everything, but for what is said after this", func(string) error {
		s.groups, s.clients, s.span, s.part = 2, 10_000, 100*time.Millisecond, 10
		return nil
	})
	flags.BoolVar(&s.update, "update", false, "write the tables into their pages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	defer caught(&err)
	if *rows != "" {
		s.rows = must(regexp.Compile(*rows))
	}
	r := &results{here(), make(map[string]samples)}
	check(s.measure(ctx, r, stderr))
	for _, t := range tables {
		text := t.write(r)
		if text == "" {
			continue
		}
		must(io.WriteString(stdout, "## "+t.name+"\n\n"+text+"\n"))
		if s.update && t.page != "" {
			check(os.WriteFile(t.page, must(t.put(must(os.ReadFile(t.page)), text)), 0o644))
		}
	}
	return nil
}

// measure measures the parts that are wanted.
func (s *settings) measure(ctx context.Context, r *results, progress io.Writer) (err error) {
	o := new(opening)
	defer func() { err = errors.Join(err, o.close()) }()
	defer caught(&err)
	for _, k := range kinds {
		if s.only != "" && !slices.Contains(strings.Split(s.only, ","), k.name) {
			continue
		}
		long := k.long
		if s.span > 0 {
			long = s.span
		}
		r.Kinds[k.name] = k.measure(ctx, s, o, long, progress)
		check(o.close())
	}
	if len(r.Kinds) == 0 {
		return fmt.Errorf("no part is called %s", s.only)
	}
	return nil
}
