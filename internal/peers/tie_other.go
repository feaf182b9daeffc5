// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package peers

import "os/exec"

// tie does nothing: a benchmark that is killed here leaves its server behind.
func tie(*exec.Cmd) {}
