// SPDX-License-Identifier: Apache-2.0

//go:build !wasm

package policyfile

import "syscall"

// nonblock is the flag with which opening waits for nobody. Windows and Plan 9 have it too, where
// it changes nothing.
const nonblock = syscall.O_NONBLOCK
