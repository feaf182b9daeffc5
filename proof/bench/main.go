// SPDX-License-Identifier: Apache-2.0

// Command bench measures the cost of the middleware, of other limiters, and of the least program
// that does the same work, and prints tables in Markdown. Run it in its folder, with GOWORK=off:
//
//	go run .
//	go run . -quick
//	go run . -only requests -update
//	go run . -only counters -rows '^file$' -span 2m
//
// Its README explains each table. -update writes the measured tables into the pages, between the lines that name them; the
// other tables stay. A full run takes a quarter of an hour on a machine that should have nothing else to do, and needs
// redis-server. A run with -quick takes a minute, and its figures tell only whether the program works.
package main

import (
	"cmp"
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

	"github.com/tallystick/tallystick/proof/pages"
)

// parts are the parts of a run, and the time that each takes.
var parts = []struct {
	name    string
	long    time.Duration
	measure func(ctx context.Context, s *settings, o *opening, all samples, long time.Duration)
}{
	{"requests", 90 * time.Second, measureRequests},
	{"memory", 20 * time.Second, measureMemory},
	{"counters", 6 * time.Minute, measureCounters},
	{"fleet", 6 * time.Minute, measureFleet},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isServer, err := serveAsTold(os.Stdin, os.Stdout)
	if !isServer {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run reads the command line, measures, and reports.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s := settings{groups: 6, part: 1, progress: stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure these `parts`: requests, memory, counters, fleet; with commas")
	flags.Func("rows", "measure rows whose names match this `pattern`, and the rows that they are compared with", func(pattern string) (err error) {
		s.rows, err = regexp.Compile(pattern)
		return err
	})
	span := flags.Duration("span", 0, "measure each part for this `long`")
	flags.BoolFunc("quick", "measure little of everything; flags after this one go further", func(string) error {
		s.groups, *span, s.part = 2, 100*time.Millisecond, 20
		return nil
	})
	update := flags.Bool("update", false, "write the tables into their pages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o, measured, machine := new(opening), make(map[string]samples), here()
	defer func() { err = errors.Join(err, o.close()) }()
	defer caught(&err)
	for _, p := range parts {
		if *only == "" || slices.Contains(strings.Split(*only, ","), p.name) {
			measured[p.name] = make(samples)
			p.measure(ctx, &s, o, measured[p.name], cmp.Or(*span, p.long))
			check(o.close())
		}
	}
	if len(measured) == 0 {
		return fmt.Errorf("no part is called %s", *only)
	}
	var made []pages.Made
	for _, t := range tables {
		if all := measured[t.part]; all != nil {
			made = append(made, t.made(machine, all))
		}
	}
	return pages.Print(stdout, append(made, verdicts(measured)), nil, map[bool]string{true: root}[*update])
}
