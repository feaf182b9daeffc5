// SPDX-License-Identifier: Apache-2.0

package file

import (
	"io"
	"os"
)

// A disk has the file operations that a counter needs. Tests use disks that fail or lose
// power.
type disk interface {
	// Open opens a file that is there.
	Open(path string) (handle, error)

	// Create makes a file, which must not exist. It has the permissions of like, if that
	// is not nil.
	Create(path string, like handle) (handle, error)

	// Name gives a file a name that no other has; it keeps its own.
	Name(from, to string) error

	// Replace gives a file the name of another, which loses it, and returns the file
	// that has it then. If that is not next, next is closed.
	Replace(now, next handle, from, to string) (handle, error)

	// Remove removes a name.
	Remove(path string) error

	// Same reports whether a name still names an open file.
	Same(path string, f handle) (bool, error)

	// SyncNames puts the names of a directory on disk.
	SyncNames(dir string) error

	// Lock locks an open file, whose name is path, for as long as it is open. It
	// reports false if it is locked already.
	Lock(path string, f handle) (bool, error)

	// Unlock gives up what Lock holds beside the file.
	Unlock() error
}

// A handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Size is how many bytes it has.
	Size() (int64, error)

	// Reserve makes it longer, by zeros for which there is room from then on.
	Reserve(from, to int64) error

	// Sync puts what was written on disk.
	Sync() error
}

// osDisk is the disk of the operating system.
type osDisk struct {
	beside *os.File // a lock, where a file cannot be locked itself
}

type osFile struct{ *os.File }

func (*osDisk) Open(path string) (handle, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// writeZeros reserves room where the operating system has no other way.
func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, min(to-from, 1<<18))
	for ; from < to; from += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from); err != nil {
			return err
		}
	}
	return nil
}
