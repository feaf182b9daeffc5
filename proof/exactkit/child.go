// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"os"
	"os/exec"
	"strings"
)

// The environment of a process that a test starts: by what the counter is opened, and what the process does with it.
const (
	envWhere = "TALLYSTICK_COUNTER"
	envJob   = "TALLYSTICK_JOB"
)

// child makes a process ready.
func child(where string, job ...string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), envWhere+"="+where, envJob+"="+strings.Join(job, "\n"))
	c.Stderr = os.Stderr
	return c
}
