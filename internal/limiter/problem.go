// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"fmt"
)

// A Problem is one problem of what the engine was given. It never holds a secret.
type Problem struct {
	Field   string // where: a path in Go syntax, such as Limits[1].Window
	Problem string // what is wrong and what is permitted
}

// Error returns "Field: Problem".
func (p *Problem) Error() string { return p.Field + ": " + p.Problem }

// Noting returns what adds a problem to errs, of a field below at. A closure in each check would be
// copied to each of its rules.
//
//go:noinline
func Noting(errs *[]error, at string) func(field, format string, args ...any) {
	return func(field, format string, args ...any) {
		*errs = append(*errs, &Problem{Field: at + field, Problem: fmt.Sprintf(format, args...)})
	}
}

// ProblemsAs returns err with each [Problem] that the engine has joined in it as an error of another
// package, which has the same fields. What is no Problem stays.
func ProblemsAs[To ~struct{ Field, Problem string }, P interface {
	*To
	error
}](err error) error {
	switch e := err.(type) {
	case *Problem:
		return P(&To{e.Field, e.Problem})
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		told := make([]error, len(all))
		for i := range all {
			told[i] = ProblemsAs[To, P](all[i])
		}
		return errors.Join(told...)
	}
	return err
}
