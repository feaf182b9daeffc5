// SPDX-License-Identifier: Apache-2.0

package file

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// A file is made smaller by writing another, of the accounts that count, beside it, while calls are
// written to the old one. Accounts that change meanwhile are written after it, again and again,
// until little is left. Calls wait for the last write, and until the new file has its name.

// spare is by how much a file may be larger than twice its accounts: below it, it is not
// worth the work. It takes a tenth of a second to read.
const spare = 16 << 20

// nextSuffix is behind the name of a file that is not ready.
const nextSuffix = ".next"

// syncEvery is how much of a new file is written before it is put on disk: all at once
// would hold up the commits of the old one.
const syncEvery = 1 << 20

var errQuit = errors.New("file: closed")

func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// large is from where on much of the file is not needed.
func (c *counter) large() int64 { return 2*c.accounts.size() + c.spare }

// copy writes most of a smaller file.
func (c *counter) copy(n *next, like handle) error {
	path := c.path + nextSuffix
	if err := c.disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // one that could not be removed when it had failed
	}
	f, err := c.disk.Create(path, like)
	if err != nil {
		return err
	}
	n.log = &log{f: f}
	if ok, err := c.disk.Lock(path, f); err != nil || !ok {
		return errors.Join(err, ErrInUse)
	}
	c.accounts.begin()
	l, err := startLog(f, newNonce(), c.accounts.size())
	if err != nil {
		return err
	}
	n.log = l
	err = c.accounts.each(func(some []account) error {
		seen, live := c.accounts.hindsight(), some[:0]
		for _, a := range some {
			if !idle(&seen, a.bytes) {
				live = append(live, a)
			}
		}
		return c.add(n, live)
	})
	for range 8 {
		if err != nil || c.accounts.waiting() <= perGroup {
			break
		}
		err = c.add(n, c.accounts.changed())
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// add adds accounts to a smaller file.
func (c *counter) add(n *next, some []account) error {
	for len(some) > 0 {
		select {
		case <-c.quit:
			return errQuit
		default:
		}
		part := some[:min(len(some), perGroup)]
		some = some[len(part):]
		at := n.log.end
		if err := n.log.snapshot(part); err != nil {
			return err
		}
		if n.unsynced += n.log.end - at; n.unsynced >= syncEvery {
			n.unsynced = 0
			if err := n.log.f.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt goes on in the smaller file. Nothing is being written. If it cannot, the old file
// is as good as before.
func (c *counter) adopt(n *next, give bool) {
	path := c.path + nextSuffix
	err := n.err
	if err == nil && give {
		err = errQuit
	}
	if err == nil {
		err = c.here()
	}
	if err == nil {
		err = c.add(n, c.accounts.changed())
	}
	if err == nil {
		err = n.log.endSnapshot()
	}
	if err != nil {
		if n.log != nil {
			_ = n.log.f.Close()
			_ = c.disk.Remove(path)
		}
	} else if n.log.f, err = c.disk.Replace(c.log.f, n.log.f, path, c.path); err != nil {
		c.log.f = n.log.f
		_ = c.disk.Remove(path)
		if c.log.f == nil {
			_ = c.stop(err)
		}
	} else {
		c.log = n.log
		// Until its name is on disk, a power cut brings the old file back, which will not
		// have what is counted from now on.
		if err := c.disk.SyncNames(filepath.Dir(c.path)); err != nil {
			_ = c.stop(err)
		}
	}
	switch {
	case errors.Is(err, ErrStopped):
		_ = c.stop(err)
	case err != nil:
		c.stuck, c.again, c.tried = err, c.log.end+max(c.log.end/4, leastRoom), c.now().Unix()/60
	default:
		c.stuck, c.again = nil, 0
	}
	n.err = err
	c.accounts.end()
	c.mu.Lock()
	c.shrinking = false
	c.mu.Unlock()
}

// A file that cannot be made smaller does not grow without end: new keys are refused when it is
// twice as large as it should be, and all are when it is eight times so.
const (
	stuckForNew = 2
	stuckForAll = 8
)

// errStuck says so, and that nothing was written.
var errStuck = errors.New("file: it cannot be made smaller, and has grown far beyond its accounts")

// stuckAt fails if the file cannot be made smaller and is times too large.
func (c *counter) stuckAt(times int64) error {
	if c.stuck == nil || c.log.end < times*c.large() {
		return nil
	}
	return fmt.Errorf("%w: %w", errStuck, c.stuck)
}
