// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"context"
	"errors"
	"time"
)

// A Store keeps values by name, and replaces a value only if it is the one that the caller
// has read. It must be safe for concurrent use, also by other processes. A method obeys
// the deadline of its context. No error may hold a name or a value. A counter's names are
// 32 bytes of 0 to 9 and a to f: an [exact.Policy.AccountName] in hex.
type Store interface {
	// Load returns the value of a name and its revision. Where nothing is kept, the value
	// is empty, which none is that was swapped in; there may be a revision all the same.
	// It sees every Swap that has returned.
	//
	// An error says that the store does not answer; one that is [exact.ErrBusy], that it
	// has more calls than it takes, which is load rather than failure. It is asked once
	// more then, while there is time.
	Load(ctx context.Context, name string) (value []byte, revision string, err error)

	// Swap replaces the value of a name, as one atomic step, if its revision is still the one that
	// Load has returned. The new one differs from all that the name has had, also before it was
	// forgotten, and also for the same bytes: else two callers that have read at different times
	// could both win. The store keeps the value for as long as keep, by whole seconds, from now on,
	// however long it was to keep the one before; soon after that it may forget it.
	//
	// If the revision is another one, nothing changes and the error is [ErrChanged]. An
	// error that is [exact.ErrNotCounted] says that nothing was changed and never will be;
	// of those, [exact.ErrFull] says that there is no room for the value, for its size or
	// because of all the others, and is load rather than failure, like [exact.ErrBusy].
	// After any other error the value may have been replaced.
	Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error
}

// A TimedStore is a [Store] that tells its server's time. A counter then uses that clock, and
// the clocks of instances do not matter.
type TimedStore interface {
	Store

	// LoadAt is Load, and what time it was while it loaded. It takes no round trip more.
	LoadAt(ctx context.Context, name string) (value []byte, revision string, now time.Time, err error)
}

// A ListedStore is a [Store] that can say all that it keeps: then a counter is an [engine.Archive]
// that lists its accounts.
type ListedStore interface {
	Store

	// Each calls f with every name and its value, until f returns an error, which it returns.
	// The value is one that the name had while Each ran. A name that comes or goes meanwhile
	// may be left out. Expired names may be included.
	Each(ctx context.Context, f func(name string, value []byte) error) error
}

// ErrChanged says that a value was not replaced, because it is not the one that was read.
var ErrChanged = errors.New("cas: the value has changed")
