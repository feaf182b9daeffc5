// SPDX-License-Identifier: Apache-2.0

// Command bounds makes the tables of packages sim and price. "make bounds" writes them into the pages.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tallystick/tallystick/internal/lab/price"
	"github.com/tallystick/tallystick/internal/lab/sim"
)

func main() {
	run, args := sim.Run, os.Args[1:]
	if len(args) > 0 && (args[0] == "sim" || args[0] == "price") {
		if args[0] == "price" {
			run = price.Run
		}
		args = args[1:]
	}
	if _, err := run(context.Background(), args, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
