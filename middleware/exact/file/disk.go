// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// A disk has files, as much of them as a counter needs: tests put one in that fails, and
// one whose power is cut.
type disk interface {
	// Open opens a file that is there.
	Open(path string) (handle, error)

	// Create makes a file, which must not be there. It may be read by those who may read
	// like, if that is not nil.
	Create(path string, like handle) (handle, error)

	// Name gives a file a name that no other has; it keeps its own.
	Name(from, to string) error

	// Replace gives a file the name of another, which loses it, and returns the file
	// that has it then. If that is not next, next is closed.
	Replace(now, next handle, from, to string) (handle, error)

	// Remove removes a name.
	Remove(path string) error

	// Same reports whether a name is still that of an open file.
	Same(path string, f handle) (bool, error)

	// SyncNames puts on disk what files of a directory are called.
	SyncNames(dir string) error

	// Lock locks an open file, whose name is path, for as long as it is open. It
	// reports false if somebody else has.
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

// osDisk is that of the operating system.
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

func (*osDisk) Create(path string, like handle) (handle, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if like, ok := like.(osFile); ok && runtime.GOOS != "windows" {
		info, err := like.Stat()
		if err == nil {
			err = f.Chmod(info.Mode().Perm())
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return osFile{f}, nil
}

func (*osDisk) Name(from, to string) error { return os.Link(from, to) }

func (*osDisk) Remove(path string) error { return os.Remove(path) }

func (*osDisk) Same(path string, f handle) (bool, error) {
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.(osFile).Stat()
	return err == nil && os.SameFile(there, open), err
}

func (*osDisk) SyncNames(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // has no fsync of directories
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (d *osDisk) Lock(path string, f handle) (bool, error) { return d.lock(path, f.(osFile).File) }

func (d *osDisk) Unlock() error {
	if d.beside == nil {
		return nil
	}
	f := d.beside
	d.beside = nil
	return f.Close()
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Reserve(from, to int64) error { return reserve(f.File, from, to) }

func (f osFile) Sync() error { return syncData(f.File) }

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
