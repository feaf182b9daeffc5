// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime returns what all threads of a process have spent on processors, to the
// nanosecond: its clock of POSIX's clock_getcpuclockid, where /proc/PID/stat counts in
// hundredths of a second. Process 0 is this one.
func processorTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(t.Nano()), nil
}

// reserve and syncData are what exact/file does to its file here.
func reserve(f *os.File, size int64) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, size); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP):
			return writeZeros(f, size)
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}

func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
