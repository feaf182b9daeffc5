// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/internal/plan"
)

// An Archive is an [exact.Counter] whose accounts an operator can list, forget one by one, and move
// to a counter on another engine ([Copy]). All counters of Tallystick are archives, except the
// counters of [Merge] and of package remote: ask their engine, or the owners.
type Archive interface {
	exact.Counter

	// Each calls f with every account, also with some that count nothing any more, until f returns
	// an error, which it returns. An account is as it stood at some moment while Each ran, and the
	// moments of two differ: what is charged meanwhile may be in it or not, and a key that comes
	// meanwhile may be left out. It holds up calls for no longer than one of them takes. An account
	// that cannot be read ends it.
	Each(ctx context.Context, f func(Record) error) error

	// Restore begins an account with what another counter has counted. It is not added to what is
	// there: where the name has an account, Restore changes nothing and returns [ErrKept]. So a
	// copy that was broken off can be begun anew, and nothing that was counted here is lost. An
	// account that counts nothing any more is left out.
	Restore(ctx context.Context, r Record) error

	// Forget forgets the account of a name ([exact.Policy.AccountName]): its next call finds all of
	// its quotas. Its receipts are good for nothing, but where that call comes within 8.2 ms of the
	// first of the account: then they may give back what is charged from then on. It is no error
	// if there is none.
	Forget(ctx context.Context, name string) error
}

// Partitioned is an [exact.Counter] whose keys lie in several places that fail apart, such as the
// nodes of a cluster. Package middleware gives each part places and a breaker of its
// own: then one node that hangs is an outage for its keys, and for no others.
type Partitioned interface {
	exact.Counter

	// Part names the part that a call goes to: any number, the same for all calls of one part. It
	// may change, as nodes do. It must be quick, and ask no other process.
	Part(call exact.Call) int
}

// A CounterCloser is an [exact.Counter] that holds something until it is closed: a file, connections, or
// what it has taken ahead.
type CounterCloser interface {
	exact.Counter
	io.Closer
}

// An ArchiveCloser is a [CounterCloser] that is an [Archive] too.
type ArchiveCloser interface {
	Archive
	io.Closer
}

// A Record is an account out of a counter.
type Record struct {
	// Name is [exact.Policy.AccountName] of policy and key: a hash. It says neither, but a guess of
	// both can be checked.
	Name string

	// Account is a copy, without the IDs that it remembers for [exact.IDLife]: a call that is repeated
	// at another engine is counted there.
	Account *Account
}

// NameLength is how many bytes the name of an account has, 16, as [exact.Policy.AccountName] makes
// it.
const NameLength = plan.NameLength

// ErrKept says that an account was not restored, because there is one of its name already.
var ErrKept = fmt.Errorf("%w: an account of this name counts already, and stays as it is", exact.ErrNotCounted)

// Copy copies every account of a counter to another, and says how many it has, and how many it has
// not because that one counts them already. Whatever the first admits during the copy, and until
// the second takes its place, the second admits once more: stop what counts, copy, and start it on
// the other. Clocks must be right, as on instances of one counter.
func Copy(ctx context.Context, to, from Archive) (copied, kept int, err error) {
	err = from.Each(ctx, func(r Record) error {
		err := to.Restore(ctx, r)
		switch {
		case err == nil:
			copied++
		case errors.Is(err, ErrKept):
			kept++
			err = nil
		}
		return err
	})
	return copied, kept, err
}

// ReadRecord returns the record of a stored account.
func ReadRecord(name string, bytes []byte) (Record, error) {
	if len(name) != NameLength {
		return Record{}, fmt.Errorf("exact: an account is named by %d bytes, not %d", NameLength, len(name))
	}
	a := new(Account)
	if err := a.UnmarshalBinary(bytes); err != nil {
		return Record{}, err
	}
	a.answers = nil
	return Record{name, a}, nil
}

// Check says why a record cannot be restored, or nil: an error that is [exact.ErrNotCounted].
func (r *Record) Check(ctx context.Context) error {
	if len(r.Name) != NameLength || r.Account == nil {
		return fmt.Errorf("%w: a record without the name of an account, or without an account", exact.ErrNotCounted)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", exact.ErrNotCounted, err)
	}
	return nil
}

// Counts reports whether anything of the account still counts at now. An engine that forgets
// accounts uses an [IdleClock], because a clock may be wrong for a moment.
func (a *Account) Counts(now time.Time) bool { return a.Expires().After(now) }
