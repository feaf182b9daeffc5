// SPDX-License-Identifier: Apache-2.0

// Command lab attacks real servers behind a real proxy, and counts what they admit beside what
// they promise.
package main

import (
	"fmt"
	"os"

	"github.com/schollz/progressbar/v3"

	"github.com/tallystick/tallystick/internal/lab/plots"
	"github.com/tallystick/tallystick/middleware"
)

func main() {
	_ = progressbar.New(1)
	_ = plots.Line{}
	_ = middleware.WhenExhausted
	fmt.Fprintln(os.Stderr, "lab: nothing yet")
	os.Exit(2)
}
