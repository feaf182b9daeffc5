// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"cmp"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/engine"
	"github.com/tallystick/tallystick/storeless"
)

// A Config says how a counter counts. Its zero value is good.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Tries is how often a call tries to win the race for its key, if its deadline does
	// not come before. Default: 16. Permitted: 1 to 64.
	Tries int64

	// Now is the clock. Default: the clock of a [TimedStore], or else [time.Now]. The package
	// covers clocks that differ.
	Now func() time.Time
}

// counter implements [engine.Archive] on a store.
type counter struct {
	exact.Counter // which merges calls to the engine
	engine        *batcher
}

// New returns a counter in a store. All counters of one store are one. It is safe
// for concurrent use, has no goroutine of its own, and needs no closing: the store is the
// caller's.
//
// After an error of its Refund that is not [exact.ErrNotCounted] it may have been given back: to ask again is
// safe. To list accounts (Each) the store must be a [ListedStore]: else the error is [exact.ErrNoArchive]. A
// store has no way to remove a value: after Forget there is one that has counted nothing, for a minute.
func New(store Store, cfg Config) (engine.Archive, error) {
	var errs []error
	if store == nil {
		errs = append(errs, &storeless.ConfigError{Field: "store", Problem: "is nil"})
	}
	cfg.Tries = cmp.Or(cfg.Tries, 16)
	if cfg.Tries < 1 || cfg.Tries > 64 {
		errs = append(errs, &storeless.ConfigError{Field: "Tries", Problem: fmt.Sprintf("must be from 1 to 64, or 0 for 16, not %d", cfg.Tries)})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	e := &batcher{store: store, tries: cfg.Tries, random: mathrand.Int64N}
	timed, ok := store.(TimedStore)
	switch {
	case cfg.Now != nil:
		e.loadAt = byClock(store, cfg.Now)
	case ok:
		e.loadAt = timed.LoadAt
	default:
		e.loadAt = byClock(store, time.Now)
	}
	return &counter{engine.Merge(e), e}, nil
}

// Deadline is how long a request waits by default: a call is two round trips at least, and the second waits for a
// disk. Package middleware asks by this name.
func (c *counter) Deadline() time.Duration { return 250 * time.Millisecond }
