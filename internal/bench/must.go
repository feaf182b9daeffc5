// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
)

// A failure ends the run: what cannot be measured is no figure.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// caught gives a failure back as an error: defer caught(&err).
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(p.error, *err)
	default:
		panic(p)
	}
}

// An opening is what is open for a measurement, and what tests set of it.
type opening struct {
	closers []func() error
	redis   string // the address of a server
	hooks
}

// closing has f called at the end; what is opened last is closed first.
func (o *opening) closing(f func() error) { o.closers = append(o.closers, f) }

func (o *opening) close() (err error) {
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f())
	}
	o.closers = nil
	return err
}
