// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

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
