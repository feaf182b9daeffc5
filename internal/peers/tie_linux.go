// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"os/exec"
	"syscall"
)

// tie makes the kernel end cmd when the thread that starts it ends: a benchmark
// that is killed cannot clean up after itself.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
