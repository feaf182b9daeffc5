// SPDX-License-Identifier: Apache-2.0

// The command write writes the npm package into a new directory. Run it at the top of the
// repository:
//
//	go run ./internal/npm/write 1.2.3 DIRECTORY
//	npm pack DIRECTORY
package main

import (
	"fmt"
	"os"

	"github.com/tallystick/tallystick/internal/npm"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: write VERSION DIRECTORY")
		os.Exit(2)
	}
	if err := npm.Write(os.Args[2], os.Args[1], "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
