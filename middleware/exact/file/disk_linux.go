// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is fsync without the time of the last write.
func syncData(f *os.File) error {
	return os.NewSyscallError("fdatasync", again(func() error { return unix.Fdatasync(int(f.Fd())) }))
}

func reserve(f *os.File, from, to int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, from, to-from) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, from, to)
	}
	return os.NewSyscallError("fallocate", err)
}
