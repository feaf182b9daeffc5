// SPDX-License-Identifier: Apache-2.0

package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// patience is how long another process may take to let go of the file: an instance
// that is being replaced.
const patience = time.Second

// Open opens the counter in a file, and creates it if there is none. It reads all of the file, some million
// accounts a second. A damaged file fails with [ErrDamaged], one that is open elsewhere with [ErrInUse], and
// one that cannot be replaced by a smaller one with [ErrFixed].
//
// The counter is safe for concurrent use. A goroutine runs while calls are being written, and another while
// the file is being made smaller; none after Close, which waits for what is being written. Calls after it fail
// with [ErrStopped]. Peek and Each see what is on disk.
func Open(path string, cfg Config) (engine.ArchiveCloser, error) {
	c, err := openOn(new(osDisk), target(path), cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// target returns the file that a link leads to. Otherwise a smaller file would replace
// the link, and the old counts stay in its target.
func target(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path // there is none yet, or Open says what is wrong
}

func openOn(d disk, path string, cfg Config) (*counter, error) {
	if cfg.Keys < 0 {
		return nil, &storeless.ConfigError{Field: "Keys", Problem: fmt.Sprintf("must be at least 1, or 0 for %d, not %d", defaultKeys, cfg.Keys)}
	}
	cfg.Keys = cmp.Or(cfg.Keys, defaultKeys)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &counter{
		disk: d, path: path, now: cfg.Now, keys: int(min(cfg.Keys, math.MaxInt)), spare: spare,
		accounts: newAccounts(), quit: make(chan struct{}),
	}
	f, err := hold(d, path)
	if err == nil {
		if err = c.read(f); err == nil {
			err = replaceable(d, path)
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // a file that is not there is made
		err = fmt.Errorf("make its folder first: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, d.Unlock()))
	}
	return c, nil
}

// hold opens and locks the file that has a name, and creates it if there is none.
func hold(d disk, path string) (handle, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := d.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = create(d, path); err == nil {
				f, err = d.Open(path)
			}
		}
		if err != nil {
			return nil, err
		}
		locked, err := d.Lock(path, f)
		if err == nil && locked {
			// Whose file this was may have replaced it before letting go of it.
			if locked, err = d.Same(path, f); err == nil && locked {
				return f, nil
			}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if time.Since(began) > patience {
			return nil, ErrInUse
		}
	}
}

// replaceable fails with [ErrFixed] where another file cannot be made beside the file, or cannot take
// its name. A file that is mounted by itself cannot have a second name in a directory of another
// mount; a trial with another file would replace it. A full disk tells nothing.
func replaceable(d disk, path string) error {
	next := path + nextSuffix
	f, err := d.Create(next, nil)
	if err == nil {
		err = errors.Join(f.Close(), d.Remove(next))
	}
	if err == nil {
		switch err = d.Name(path, next); {
		case err == nil:
			err = d.Remove(next)
		case !errors.Is(err, otherMount): // links are not for every file system
			err = nil
		}
	}
	if err == nil || errors.Is(noRoom(err), errNoRoom) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFixed, err)
}

// create makes a file without counts. It has its name only when it is whole and on
// disk, and never takes the name of another that came first: so a file of no bytes is
// always one that was cut.
func create(d disk, path string) error {
	tmp := path + ".new-" + strconv.FormatUint(newNonce(), 36)
	f, err := d.Create(tmp, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the folder %s first: %w", filepath.Dir(path), fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	defer func() { _ = d.Remove(tmp) }()
	l, err := startLog(f, newNonce(), 0)
	if err == nil {
		err = l.endSnapshot()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.Name(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncNames(filepath.Dir(path))
}

// read reads the file, and makes it ready for more.
func (c *counter) read(f handle) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	s, err := readLog(f, size, func(name, bytes []byte) { c.accounts.put(account{string(name), string(bytes)}) })
	if err != nil {
		return err
	}
	for _, b := range c.accounts.byKey {
		var a engine.Account
		if err := a.UnmarshalBinary([]byte(b)); err != nil {
			return fmt.Errorf("file: an account in it: %w", err)
		}
	}
	c.log = &log{f: f, state: s, stated: s.reserved}
	c.log.reserved = size // zeros, and on disk before a crash could leave them there
	// What was not ready when the last counter ended.
	if err := c.disk.Remove(c.path + nextSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
