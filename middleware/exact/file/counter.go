// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
)

// A Config says how a counter counts. Its zero value is good.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Keys bounds the live keys. A call for one more fails with
	// [exact.ErrFull]. On a full disk a call for a new key fails too; live keys
	// count on in their reserved room, then fail until the disk has room again.
	// Default: 1,048,576. A key of one limit takes some 120 bytes of memory,
	// and at most twice 60 of the file.
	Keys int64

	// Now is the clock, [time.Now] by default. A clock that steps back is held at
	// the last charge of the key.
	Now func() time.Time
}

const defaultKeys = 1 << 20

// counter implements [engine.ArchiveCloser] in a file.
type counter struct {
	disk     disk
	path     string
	now      func() time.Time
	keys     int
	spare    int64 // how much larger than its accounts a file may be
	accounts *accounts

	mu        sync.Mutex
	waiting   []*job
	writing   bool
	shrinking bool
	next      *next // a smaller file, for the one that writes
	failed    error // of a write: what the disk holds is unknown
	closed    bool
	idle      chan struct{} // closed when the last goroutine of a closed counter is done
	quit      chan struct{} // closed when it is closed

	// Of the one goroutine that writes.
	log      *log
	replies  engine.Idempotency
	scratch  []byte
	searched int64 // Unix second of the last search for idle accounts
	tight    bool  // the disk was full
	asked    int64 // Unix second at which
	stuck    error // why it could not be made smaller; nil: it could
	again    int64 // how large the file is when that is tried again
	tried    int64 // minute since 1970 of the last attempt
}

// Deadline is how long a request waits by default: fsync takes a few ms, and
// much longer on a busy machine. Package middleware asks by this name.
func (c *counter) Deadline() time.Duration { return 250 * time.Millisecond }

// left lets Close go on when no call of a closed counter runs any more. c.mu is held.
func (c *counter) left() {
	if c.closed && !c.writing && !c.shrinking {
		close(c.idle)
	}
}

// stopped says why no call can be taken any more. c.mu is held.
func (c *counter) stopped() error {
	if c.failed == nil && c.closed {
		return fmt.Errorf("%w: it was closed", ErrStopped)
	}
	return c.failed
}

// A job is a call that waits to be written.
type job struct {
	ctx     context.Context
	name    string
	call    *exact.Call     // without its ID; or
	id      string          // of the call
	receipt *exact.Receipt  // of a refund; or
	account *engine.Account // to be restored, or one that has counted nothing
	done    chan outcome    // of one
}

type outcome struct {
	verdict exact.Verdict
	err     error
	kept    bool // its ID, while it was decided
}

// A next is a smaller file, or why there is none.
type next struct {
	log      *log
	unsynced int64
	err      error
}

// stop lets no call in any more.
func (c *counter) stop(err error) error {
	if !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("%w: %w", ErrStopped, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = err
	return err
}

// here fails if the file has lost its name: another counter may be counting in the file
// that has it. An unreadable directory is no failure.
func (c *counter) here() error {
	if same, err := c.disk.Same(c.path, c.log.f); err == nil && !same {
		return fmt.Errorf("%w: the file was renamed, removed or replaced by another", ErrStopped)
	}
	return nil
}
