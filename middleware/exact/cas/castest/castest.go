// Package castest tells whether a store keeps what a [cas.Store] promises. A package that
// implements one runs it in a test:
//
//	func TestStore(t *testing.T) {
//		if err := castest.TestStore(newStore(), 400<<10); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// It cannot tell what a store keeps when its server fails: that is for tests that know how
// to make it fail. Whether a counter in it counts exactly, package exacttest tells.
package castest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/cas"
)

// TestStore returns everything that is wrong with a store, joined. It must take values of
// any bytes, from 1 to so many of them as largest says; a counter of one limit that keeps no
// log has values of some 50 bytes, and of some 30 more for each call with an ID in the last
// [exact.IDLife]; a sliding log has 7 for each charge.
//
// It goes by the store's own time and takes some three seconds. What it writes it leaves
// behind, by random names and to be kept for a minute at most.
func TestStore(store cas.Store, largest int) error {
	var errs []error
	for _, check := range []struct {
		name string
		run  func(*run) error
	}{
		{"what was never kept", absent},
		{"what is swapped in is loaded", kept},
		{"a lost race is named", raced},
		{"a revision never comes back", fresh},
		{"names are apart", apart},
		{"values of every size", func(r *run) error { return sizes(r, largest) }},
		{"one wins", oneWins},
		{"nothing is lost", nothingLost},
		{"a context that has ended", ended},
		{"how long a value is kept", keeps},
	} {
		if err := check.run(newRun(store)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(errs...)
}

// A run is one check of one store.
type run struct {
	cas.Store
	name string
}

func newRun(store cas.Store) *run {
	b := make([]byte, cas.NameLength/2)
	_, _ = rand.Read(b) // it never fails
	return &run{store, hex.EncodeToString(b)}
}

// forAMinute is how long a value is to be kept, where no check is about that.
const forAMinute = time.Minute

func (r *run) load() ([]byte, string, error) { return r.Load(context.Background(), r.name) }

func (r *run) swap(revision, value string) error {
	return r.Swap(context.Background(), r.name, revision, []byte(value), forAMinute)
}

// put swaps a value in, whatever there is, and returns its revision.
func (r *run) put(value string) (revision string, err error) {
	_, revision, err = r.load()
	if err != nil {
		return "", fmt.Errorf("load: %w", err)
	}
	if err := r.swap(revision, value); err != nil {
		return "", fmt.Errorf("swap: %w", err)
	}
	return r.holds(value)
}

// holds says what is wrong if there is another value.
func (r *run) holds(value string) (revision string, err error) {
	got, revision, err := r.load()
	if err == nil && string(got) != value {
		err = fmt.Errorf("%d bytes are kept (%.20q), want %d (%.20q)", len(got), got, len(value), value)
	}
	return revision, err
}

// loses says what is wrong if a swap does not lose its race, or changes something.
func (r *run) loses(what, revision, kept string) error {
	if err := r.swap(revision, "of a loser"); !errors.Is(err, cas.ErrChanged) {
		return fmt.Errorf("a swap %s: %w", what, orNil(err))
	}
	if _, err := r.holds(kept); err != nil {
		return fmt.Errorf("after a swap %s, which said ErrChanged: %w", what, err)
	}
	return nil
}

// orNil names the error that is missing.
func orNil(err error) error {
	if err == nil {
		return errors.New("no error, want ErrChanged")
	}
	return fmt.Errorf("%w, want ErrChanged", err)
}
