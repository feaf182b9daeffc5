// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"fmt"
	"os"
	"strings"

	"github.com/tallystick/tallystick/middleware/exact"
)

// Process is first in a TestMain: in a process that [Attempts], [Processes] or [Paced] has started it does the job of that process, by
// the counter that open opens, and ends it.
func Process(open func(where string) (exact.Counter, error)) {
	where := os.Getenv(envWhere)
	if where == "" {
		return
	}
	c, err := open(where)
	if err == nil {
		job := strings.Split(os.Getenv(envJob), "\n")
		err = jobs[job[0]](c, job[1], job[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// jobs are what a process may do, by their names.
var jobs = map[string]func(c exact.Counter, key, n string) error{"attempts": attempt, "paces": paces}
