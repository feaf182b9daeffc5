// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"errors"
	"os"
	"syscall"
)

// lock locks the file itself: a copy may be counted in, and another name of it may not.
func (*osDisk) lock(_ string, f *os.File) (bool, error) {
	err := again(func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// again makes a system call until no signal interrupts it.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Replace implements disk.
func (*osDisk) Replace(now, next handle, from, to string) (handle, error) {
	if err := os.Rename(from, to); err != nil {
		return now, errors.Join(err, next.Close())
	}
	return next, now.Close()
}

// fullDisk are the errors of a full disk or a used-up disk quota.
var fullDisk = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// otherMount is the error if a name would be on another mount than its file.
var otherMount error = syscall.EXDEV
