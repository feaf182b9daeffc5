// SPDX-License-Identifier: Apache-2.0

// Command memory measures the memory of the middleware against the formulas of
// its documentation and prints Markdown: see package memory beside it.
//
//	go run ./internal/peers/cmd/memory
//	go run ./internal/peers/cmd/memory -quick
//
// It takes a few minutes and up to 2 GB; with -quick some seconds, which tell
// only whether it works.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tallystick/tallystick/internal/peers/machine"
)

func main() {
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "small memories and few trials")
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // flags has said why
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "memory: unexpected argument %q\n", flags.Arg(0))
		os.Exit(2)
	}
	p := thorough()
	if *quick {
		p = hasty()
	}
	if err := write(os.Stdout, p); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

// write measures and prints one section after the other.
func write(w io.Writer, p plan) error {
	_, err := fmt.Fprintf(w, "# The memory, measured\n\n%s. Random tallies of one sliding window.\n", machine.Describe(time.Now()))
	for _, section := range []func(plan) string{room, mistaken, flood, parallel, scaling} {
		if err == nil {
			_, err = io.WriteString(w, "\n"+section(p))
		}
	}
	return err
}
