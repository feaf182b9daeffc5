// SPDX-License-Identifier: Apache-2.0

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
