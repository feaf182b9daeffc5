// SPDX-License-Identifier: Apache-2.0

// Command bounds makes the tables of package sim. "make bounds" writes them into the pages.
package main

import (
	"fmt"
	"os"

	"github.com/tallystick/tallystick/internal/lab/sim"
)

func main() {
	if err := sim.Run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
