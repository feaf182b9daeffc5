// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a file beside, which goes when it is closed: one that is open cannot be
// replaced here, and between closing and opening it another could come.
func (d *osDisk) lock(path string, _ *os.File) (bool, error) {
	if d.beside != nil {
		return true, nil
	}
	name, err := windows.UTF16PtrFromString(path + ".lock")
	if err != nil {
		return false, err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE, 0, nil,
		windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	switch {
	case errors.Is(err, windows.ERROR_SHARING_VIOLATION), errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("CreateFile", err)
	}
	d.beside = os.NewFile(uintptr(h), path+".lock")
	return true, nil
}

// Replace implements disk.
func (d *osDisk) Replace(now, next handle, from, to string) (handle, error) {
	if err := errors.Join(now.Close(), next.Close()); err != nil {
		return nil, err
	}
	failed := os.Rename(from, to)
	f, err := d.Open(to)
	return f, errors.Join(failed, err)
}

// fullDisk are the errors of a full disk or a used-up disk quota.
var fullDisk = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}

// otherMount is the error if a name would be on another mount than its file.
var otherMount error = windows.ERROR_NOT_SAME_DEVICE
