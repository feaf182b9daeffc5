package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/tallystick/tallystick/storeless"
)

// patience is how long another process may take to let go of the file: an instance
// that is being replaced.
const patience = time.Second

// Open opens the counter in a file, and creates it if there is none. Every record is
// checked, at some million a second: a file that is not as it was written is refused
// with [ErrDamaged], one that is open elsewhere with [ErrInUse].
func Open(path string, cfg Config) (*Counter, error) {
	if cfg.Keys < 0 {
		return nil, &storeless.ConfigError{Field: "Keys", Problem: fmt.Sprintf("must be at least 1, or 0 for %d, not %d", DefaultKeys, cfg.Keys)}
	}
	if cfg.Keys == 0 {
		cfg.Keys = DefaultKeys
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Counter{now: cfg.Now, keys: cfg.Keys}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = create(path)
	}
	if err == nil {
		err = inspect(path)
	}
	if err == nil {
		err = guarded(func() (err error) {
			c.db, err = bolt.Open(path, 0o600, options(false))
			return err
		})
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func options(readOnly bool) *bolt.Options {
	return &bolt.Options{
		Timeout:  patience,
		ReadOnly: readOnly,
		// The list of free pages is found anew when the file is opened: less to
		// write for each commit, and less to be damaged.
		NoFreelistSync: true,
		FreelistType:   bolt.FreelistMapType,
		NoStatistics:   true,
	}
}

// create makes a file without counts. It has its name only when it is whole and on
// disk, and never takes the name of another that came first: so a file of no bytes is
// always one that was cut.
func create(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	tmp, err := os.CreateTemp(dir.Name(), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	_ = tmp.Close()
	defer os.Remove(tmp.Name())
	db, err := bolt.Open(tmp.Name(), 0o600, options(false))
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketAccounts, bucketWhole} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return new(whole).store(tx)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // has no fsync of directories
	}
	return dir.Sync()
}

// inspect reads all of a file before anything is written to it.
func inspect(path string) error {
	if err := inspectPages(path); err != nil {
		return err
	}
	return guarded(func() error {
		db, err := bolt.Open(path, 0o600, options(true))
		var system syscall.Errno
		switch {
		case errors.Is(err, bolterrors.ErrTimeout):
			return ErrInUse
		case errors.As(err, &system): // may not, cannot
			return err
		case err != nil: // the engine has a dozen words for it
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		defer db.Close() // nothing is written
		return db.View(inspectRecords)
	})
}

// inspectRecords checks that every account is as it was written, is found under its
// name, and that none is missing.
func inspectRecords(tx *bolt.Tx) error {
	w, err := loadWhole(tx)
	if err != nil {
		return err
	}
	var found whole
	accounts := tx.Bucket(bucketAccounts)
	err = accounts.ForEach(func(name, b []byte) error {
		_, sum, err := decode(name, b)
		if err != nil {
			return err
		}
		if _, there, err := load(accounts, string(name)); err != nil || there != sum {
			return fmt.Errorf("%w: a record is not where it belongs", ErrDamaged)
		}
		found.replace(0, sum)
		return nil
	})
	if err == nil && (found.accounts != w.accounts || found.sum != w.sum) {
		err = fmt.Errorf("%w: %d records of %d, or others than were written", ErrDamaged, found.accounts, w.accounts)
	}
	return err
}

// guarded runs f, and turns what a damaged file makes it do into an error: the engine
// maps the file into memory, and panics or faults where that makes no sense.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return f()
}
