// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is fsync without the time of the last write.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func reserve(f *os.File, from, to int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, from, to-from)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, from, to)
		}
		return os.NewSyscallError("fallocate", err)
	}
}
