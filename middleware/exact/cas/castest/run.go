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
	b := make([]byte, 16) // as the name of an account
	_, _ = rand.Read(b)   // it never fails
	return &run{store, hex.EncodeToString(b)}
}

// forAMinute is how long a value is to be kept, where no check is about that.
const forAMinute = time.Minute

// wrong is a finding of a check.
type wrong struct{ error }

// fail ends the check.
func (r *run) fail(format string, args ...any) { panic(wrong{fmt.Errorf(format, args...)}) }

// no ends the check if there is an error.
func (r *run) no(what string, err error) {
	if err != nil {
		r.fail("%s: %w", what, err)
	}
}

// found runs a check, and returns what it has found.
func (r *run) found(check func(*run)) (err error) {
	defer func() {
		if is := recover(); is != nil {
			w, ours := is.(wrong)
			if !ours {
				panic(is)
			}
			err = w.error
		}
	}()
	check(r)
	return nil
}

func (r *run) load() (value, revision string) {
	b, revision, err := r.Load(context.Background(), r.name)
	r.no("load", err)
	return string(b), revision
}

func (r *run) swap(revision, value string) error {
	return r.Swap(context.Background(), r.name, revision, []byte(value), forAMinute)
}

// put swaps a value in, whatever there is, and returns its revision.
func (r *run) put(value string) (revision string) {
	_, revision = r.load()
	r.no("swap", r.swap(revision, value))
	return r.holds(value)
}

// holds checks that there is no other value.
func (r *run) holds(value string) (revision string) {
	got, revision := r.load()
	if got != value {
		r.fail("%d bytes are kept (%.20q), want %d (%.20q)", len(got), got, len(value), value)
	}
	return revision
}

// loses checks that a swap loses its race, and changes nothing.
func (r *run) loses(what, revision, kept string) {
	if err := r.swap(revision, "of a loser"); !errors.Is(err, cas.ErrChanged) {
		r.fail("a swap %s: %v, want ErrChanged", what, err)
	}
	if got, _ := r.load(); got != kept {
		r.fail("after a swap %s, which said ErrChanged: another value is kept", what)
	}
}
