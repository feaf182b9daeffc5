// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

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
