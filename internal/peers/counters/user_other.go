// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package counters

import "syscall"

// unprivileged is how to start what refuses to be root, which nobody is here.
func unprivileged(string) (*syscall.SysProcAttr, error) { return nil, nil }
