// SPDX-License-Identifier: Apache-2.0

// Package world has some instances serve honest clients and attackers for minutes, while their secrets are rotated,
// their policies are changed, Redis is killed, instances are replaced and clocks are wrong, and says whether anything was lost, or grew.
//
// There are two houses that it may live in. In one all runs in one process, over loopback, so that heap and goroutines
// are those of all. In the other the instances are processes that were built for the race detector, behind nginx. The
// CPU time of honest requests is that of the thread which serves them, to which the goroutine is locked meanwhile: what
// attackers cost is not in it.
//
// Tallies are sold on two policies. On one holders and a farm use all of them. On the other work comes first while the instance is busy, or whatever the load, as the configuration says.
package world

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// Run has a world go on for so long as a command line says, and reports whether all held. build builds the program of an instance,
// with a defence broken if one is named; nil: the instances are in this process.
func Run(ctx context.Context, verb string, args []string, stdout, stderr io.Writer, build func(dir, without string) (program string, err error)) (held bool, err error) {
	f := flag.NewFlagSet(verb, flag.ContinueOnError)
	length := f.Duration("for", 5*time.Minute, "how long; longer where the machine is too slow for one of everything")
	without := ""
	if build != nil {
		f.StringVar(&without, "without", "", "break this `defence`")
	}
	if err := Parse(f, args, stderr); err != nil {
		return false, err
	}
	if *length <= 0 {
		return false, errors.New("-for must be more than 0")
	}
	set := settingsFor(*length)
	if set.dir, err = os.MkdirTemp("", "tallystick-lab"); err != nil {
		return false, err
	}
	defer os.RemoveAll(set.dir)
	if build != nil {
		if set.program, err = build(set.dir, without); err != nil {
			return false, err
		}
	}
	found, err := live(ctx, set)
	if err != nil {
		return false, err
	}
	rows := found.rows()
	return Holds(rows), found.write(stdout, rows)
}

// Parse reads a command line that has flags alone.
func Parse(f *flag.FlagSet, args []string, stderr io.Writer) error {
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q?", f.Arg(0))
	}
	return nil
}

// settingsFor are those of a run: what happens every second, or every 20, happens more often in
// a short one.
func settingsFor(length time.Duration) settings {
	return settings{
		length: length, round: min(time.Second, length/40), reconfigure: time.Second, rotate: min(20*time.Second, max(2*time.Second, length/8)),
		patience: patience, redis: []string{"--appendonly", "yes", "--appendfsync", "always"}, // a kill must not lose what was acknowledged
	}
}

// live runs a world from its beginning to its end, and returns what was found.
func live(ctx context.Context, set settings) (*findings, error) {
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	before := runtime.NumGoroutine()
	began := time.Now()
	w, err := openWorld(ctx, set)
	if err != nil {
		return nil, err
	}
	w.play(ctx)
	w.interrupted, w.length, w.processes = ctx.Err() != nil, time.Since(began), set.program != ""
	w.end()
	http.DefaultClient.CloseIdleConnections()
	w.goroutinesBefore, w.goroutinesLeft = before, left(before, set.patience)
	if w.goroutinesLeft > before {
		var all strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
		w.leaked = all.String()
	}
	return &w.findings, w.Failed()
}

// left returns how many goroutines there are, when those that are about to end have.
func left(before int, patience time.Duration) int {
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine()
}
