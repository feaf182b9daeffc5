// SPDX-License-Identifier: Apache-2.0

// Command report measures what package peers measures and prints it as Markdown: what a
// request costs in each limiter, and whether the budgets of the design are met.
//
//	go run ./cmd/report
//	go run ./cmd/report -quick
//	go run ./cmd/report -only requests -update README.md,../../README.md
//	go run ./cmd/report -only counters -update README.md
//	go run ./cmd/report -only counters -rows '^file$' -span 2m -against cmd/report/testdata/yield.json
//
// All of it takes most of an hour, on a machine that should have nothing else to do;
// with -quick some minutes, for figures that tell only whether it works. With
// -raw it also writes what was measured, as benchmarks are written, for benchstat or for
// -from.
//
// -only requests is what takes turns in one process, in the minute of -span: calls through
// ServeHTTP, requests to a real server, and requests on several processors, each of
// which -only also takes by itself, in as much time: calls, served, cores. -rows leaves out
// those of ours whose names do not match. The rest, in a process for each
// limiter, is measured only when everything is.
//
// -only counters is the table of exact counters, in the seven minutes of -span; all
// take turns in one process. With -against, those that -rows names are measured beside
// variants of this repository, each with one change: is it worth having? Files of variants
// are in testdata.
//
// -update writes what was measured into pages, between the marks that they have.
//
// TALLYSTICK_BENCH_COUNT is the default of -count. With TALLYSTICK_REQUIRE=1 it
// fails where it would leave out what needs a redis-server that is not there.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tallystick/tallystick/internal/peers"
	"github.com/tallystick/tallystick/internal/peers/machine"
)

// options are what a run depends on.
type options struct {
	count     int
	benchtime time.Duration
	quick     bool
	raw, from string

	only      string // "counters", or everything
	span      time.Duration
	rows, dir string
	keys      int
	against   string
	update    string
	part      int // of what a slice of requests has, in tests
}

func main() {
	o, err := parse(os.Args[1:], os.Getenv("TALLYSTICK_BENCH_COUNT"), os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // parse has said why
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// parse reads the command line. It explains its errors on stderr.
func parse(args []string, count string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.count, "count", 6, "run everything `n` times; 6 is the least that gives a spread")
	flags.DurationVar(&o.benchtime, "benchtime", 500*time.Millisecond, "measure each benchmark for this `long`")
	flags.BoolVar(&o.quick, "quick", false, "run once, briefly and without the million clients")
	flags.StringVar(&o.raw, "raw", "", "write what the benchmarks print to this `file`")
	flags.StringVar(&o.from, "from", "", "run nothing, report on this `file` written by -raw")
	flags.StringVar(&o.only, "only", "", "measure this `part`: counters, or requests, or of those calls, served or cores")
	flags.DurationVar(&o.span, "span", 0, "measure all counters together for this `long`, 7m if not said, and all requests, 1m")
	flags.StringVar(&o.rows, "rows", "", "measure counters, or rows of ours, whose names match this `pattern`")
	flags.IntVar(&o.keys, "keys", 10_000, "let counters count `n` keys beside the hot one")
	flags.StringVar(&o.dir, "dir", "", "let counters make their files in this `directory`, on the disk that is meant")
	flags.StringVar(&o.against, "against", "", "measure counters beside the variants of this `file`")
	flags.StringVar(&o.update, "update", "", "write what was measured into these `pages`, between their marks; more than one with commas")
	var err error
	if count != "" {
		if o.count, err = strconv.Atoi(count); err != nil {
			err = fmt.Errorf("TALLYSTICK_BENCH_COUNT is %q, not a number", count)
		}
	}
	if err == nil {
		if err = flags.Parse(args); err != nil {
			return o, err // flags has explained it
		}
	}
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.count < 1:
		err = fmt.Errorf("-count is %d; it must be at least 1", o.count)
	case o.benchtime <= 0:
		err = fmt.Errorf("-benchtime is %s; it must be positive", o.benchtime)
	case o.span < 0:
		err = fmt.Errorf("-span is %s; it must be positive", o.span)
	case o.only != "" && o.only != "counters" && !onlyRequests(o.only):
		err = fmt.Errorf("-only is %q; it may be counters, requests, calls, served or cores", o.only)
	case o.rows != "" && o.only == "":
		err = errors.New("-rows wants -only")
	case o.against != "" && o.only != "counters":
		err = errors.New("-against wants -only counters")
	case o.keys < 2:
		err = fmt.Errorf("-keys is %d; it must be at least 2", o.keys)
	}
	if err != nil {
		fmt.Fprintln(stderr, "report:", err)
	}
	if o.quick {
		o.count, o.benchtime = 1, min(o.benchtime, 50*time.Millisecond)
	}
	return o, err
}

// run measures, or reads what was measured, and reports.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	var raw bytes.Buffer
	head := "Report on " + o.from
	if o.from != "" {
		text, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		raw.Write(text)
	} else {
		head = machine.Describe(time.Now())
		if err := fill(ctx, o, &raw, stderr); err != nil {
			return err
		}
	}
	r, err := read(&raw)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, render(r, head)); err != nil || o.update == "" {
		return err
	}
	for page := range strings.SplitSeq(o.update, ",") {
		if err := update(page, r, place(o)); err != nil {
			return err
		}
	}
	return nil
}

// place says on which machine a page was measured; the date is that of the page.
func place(o options) string {
	if o.from != "" {
		return "Measured elsewhere"
	}
	return machine.Here()
}

// fill measures into raw and, as it goes, into the file that was asked for:
// what was measured before a failure is not lost.
func fill(ctx context.Context, o options, raw io.Writer, stderr io.Writer) error {
	redis, err := findRedis(stderr)
	if err != nil {
		return err
	}
	if o.raw == "" {
		return fillAll(ctx, o, redis, raw, stderr)
	}
	f, err := os.Create(o.raw)
	if err != nil {
		return err
	}
	err = fillAll(ctx, o, redis, io.MultiWriter(raw, f), stderr)
	return errors.Join(err, f.Close())
}

// fillAll measures the limiters, if they were asked for, and the counters.
func fillAll(ctx context.Context, o options, redis bool, raw, stderr io.Writer) error {
	if o.against != "" {
		return measureVariants(ctx, o, raw, stderr)
	}
	if o.only == "" || onlyRequests(o.only) {
		if err := measureRequests(ctx, o, raw, stderr); err != nil || o.only != "" {
			return err
		}
	}
	if o.only == "" {
		if err := measure(ctx, plan(o, redis), raw, stderr); err != nil {
			return err
		}
	}
	return measureCounters(ctx, o, redis, raw, stderr)
}

// findRedis reports whether there is a redis-server, and says aloud if not.
func findRedis(stderr io.Writer) (bool, error) {
	_, err := peers.FindRedis()
	switch {
	case err == nil:
		return true, nil
	case os.Getenv("TALLYSTICK_REQUIRE") == "1":
		return false, err
	}
	fmt.Fprintln(stderr, "report: NOT MEASURED: what needs Redis:", err)
	return false, nil
}
