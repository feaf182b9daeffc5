// SPDX-License-Identifier: Apache-2.0

//go:build !wasm

package policyfile

import "syscall"

// nonblock is the flag with which opening does not wait. It changes nothing on Windows and Plan
// 9.
const nonblock = syscall.O_NONBLOCK
