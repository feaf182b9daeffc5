// SPDX-License-Identifier: Apache-2.0

// Command lab attacks real servers behind a real proxy, and counts what they admit beside what
// docs/bounds.md promises.
//
//	go run ./internal/lab             every row, at length
//	go run ./internal/lab -short      the same, small
//	go run ./internal/lab -out DIR    with plots, as SVG
//	go run ./internal/lab -without X  with a defence broken, which must be found out
//	go run ./internal/lab -fleet 1h   no rows: four processes serve for an hour, under the race detector
//
// It starts instances of a small site, nginx in front of them, and then plays one row after
// the other: an attacker and, beside it on the same route, honest clients. An oracle sees every
// answer, and so knows of each refusal whether it was just. All is on the loopback network, where each
// client has an address of its own. The clocks of the instances stand, so that nothing depends
// on how fast the machine is.
//
// The status is 1 if a row admitted more than it may, or refused an honest client that had
// room, where neither a full memory explains that, nor the share of an own tally away from home. It is 2 if the lab could not do its work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are what the command line says.
type options struct {
	short     bool
	fleet     time.Duration
	out, only string
	without   string
	broken    *breakage
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("lab", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.short, "short", false, "fewer instances, smaller quotas, less work: under 45 seconds")
	f.StringVar(&o.out, "out", "", "a `folder` for plots; of a fleet, for what its processes say")
	f.StringVar(&o.only, "rows", "", "play these `rows` alone, by their names, with commas")
	f.DurationVar(&o.fleet, "fleet", 0, "in place of rows, have a fleet serve for so `long`, built for the race detector")
	f.StringVar(&o.without, "without", "", "break this `defence`: memory, merge, price, strike, binding, trusted-proxies, share, inherit; and in a fleet header-copy, hand-back")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("what is %q?", f.Arg(0))
	}
	o.broken, err = breakageNamed(o.without)
	return o, err
}

// chosen returns the rows that -rows names.
func (o options) chosen() ([]row, error) {
	all := rows()
	if o.only == "" {
		return all, nil
	}
	var some []row
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-rows: there is no row %q", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// run is main, and returns its status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	broken, err := try(ctx, args, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "lab:", err)
		return 2
	case broken:
		return 1
	}
	return 0
}

// stands says why the lab cannot stand on this machine, or nil.
func stands() error {
	if _, err := nginx(); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.16.0.1:0")
	if err != nil {
		return fmt.Errorf("every client needs a loopback address of its own, as Linux has them: %w", err)
	}
	return l.Close()
}

// tryFleet has a fleet serve, and says whether anything was wrong.
func tryFleet(ctx context.Context, dir string, o options, stdout io.Writer) (broken bool, err error) {
	if o.out != "" { // all that the processes say, to be looked at
		if dir, err = filepath.Abs(o.out); err != nil {
			return false, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return false, err
		}
	}
	program, err := build(ctx, dir, o.broken, "-race")
	if err != nil {
		return false, err
	}
	found, err := runFleet(ctx, dir, program, o.fleet)
	if err != nil {
		return false, err
	}
	rows := judgeFleet(found)
	fmt.Fprintf(stdout, "%d processes behind nginx, %s.\n\n", fleetSize, found.length.Round(time.Second))
	return !judge.Holds(rows), judge.Write(stdout, rows)
}

// try plays the rows, and says whether anything that is promised was not kept.
func try(ctx context.Context, args []string, stdout, stderr io.Writer) (broken bool, err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return false, err
	}
	chosen, err := o.chosen()
	if err != nil {
		return false, err
	}
	if err := stands(); err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "tallystick-lab")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	bar := newBar(stderr, len(chosen))
	bar.says("builds the server")
	if o.fleet > 0 {
		return tryFleet(ctx, dir, o, stdout)
	}
	program, err := build(ctx, dir, o.broken)
	if err != nil {
		return false, err
	}
	sc := whole
	if o.short {
		sc = short
	}
	l, err := openLab(ctx, dir, program, sc, chosen)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var results []*result
	for i, r := range chosen {
		bar.says(r.name)
		got, err := l.play(r, i)
		if err != nil {
			return false, err
		}
		results = append(results, got)
		bar.done()
	}
	bar.end()
	if err := writeTable(stdout, sc, results); err != nil {
		return false, err
	}
	if o.out != "" {
		if err := draw(o.out, results); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(results, func(r *result) bool { return !r.holds() }), nil
}
