// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns how long the thread that calls it has computed. A goroutine that is
// locked to its thread so measures itself alone, whatever else the process does.
func threadTime() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// tie makes the kernel end cmd when the thread that starts it ends, and keeps the Ctrl-C of a
// terminal from it.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
