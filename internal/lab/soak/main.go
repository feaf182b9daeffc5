// SPDX-License-Identifier: Apache-2.0

// Command soak has some instances serve honest clients and attackers for minutes, while their
// secrets are rotated, their policies are changed, Redis is killed and clocks are wrong, and
// says whether anything was lost, or grew.
//
//	make soak                       five minutes, with the race detector
//	make soak SOAK=1h
//	go run ./soak -for 20s          from internal/lab
//
// All runs in one process, over loopback, so that the race detector sees it, and heap and
// goroutines can be counted. The CPU time of honest requests is that of the thread which serves
// them, to which the goroutine is locked meanwhile: what attackers cost is not in it.
//
// Tallies are sold on two policies. On one they have a home, and a share on the other instances, of which holders and a
// farm use all. On the other work comes first while the instance is busy, or whatever the load, as the configuration says.
//
// The status is 1 if something does not hold. The first Ctrl-C ends it with the table of what was seen until then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/tallystick/tallystick/internal/lab/judge"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // the second one ends the process
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main, and returns its status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	length := f.Duration("for", 5*time.Minute, "how long; longer where the machine is too slow for one of everything")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "soak: what is %q?\n", f.Arg(0))
		return 2
	}
	if *length <= 0 {
		fmt.Fprintln(stderr, "soak: -for must be more than 0")
		return 2
	}
	set := settingsFor(*length)
	set.progress = progress(stderr)
	found, err := soak(ctx, set)
	set.progress("")
	if err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 2
	}
	rows := rowsOf(found)
	if err := write(stdout, found, rows); err != nil {
		fmt.Fprintln(stderr, "soak:", err)
		return 2
	}
	if !judge.Holds(rows) {
		return 1
	}
	return 0
}

// settingsFor are those of a run: what happens every second, or every 20, happens more often in
// a short one.
func settingsFor(length time.Duration) settings {
	return settings{
		length: length, round: min(time.Second, length/40), reconfigure: min(time.Second, length/40), rotate: min(20*time.Second, length/8),
		progress: func(string) {},
	}
}

// progress returns what shows a line on a terminal, in the place of the last.
func progress(w io.Writer) func(string) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func(string) {}
	}
	return func(line string) { fmt.Fprintf(w, "\r\x1b[K%s", line) }
}

// soak runs a world from its beginning to its end, and returns what was found.
func soak(ctx context.Context, set settings) (f findings, err error) {
	runtime.GC()
	f.goroutinesBefore = runtime.NumGoroutine()
	err = temporary(func(dir string) error {
		began := time.Now()
		w, err := openWorld(ctx, dir, set)
		if err != nil {
			return err
		}
		w.play(ctx)
		f.interrupted = ctx.Err() != nil
		f.length = time.Since(began)
		w.end()
		w.collect(&f)
		return errors.Join(w.errs...)
	})
	if err != nil {
		return f, err
	}
	f.goroutinesLeft = left(f.goroutinesBefore, set.patience())
	if f.goroutinesLeft > f.goroutinesBefore {
		var all strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
		set.progress(all.String() + "\n")
	}
	return f, nil
}

// patience is how long goroutines may take to end.
func (s settings) patience() time.Duration {
	if s.hurry {
		return 2 * time.Second
	}
	return patience
}

// left returns how many goroutines there are, when those that are about to end have.
func left(before int, patience time.Duration) int {
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine()
}
