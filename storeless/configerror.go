// SPDX-License-Identifier: Apache-2.0

package storeless

import "iter"

// A ConfigError is one problem of a configuration. Constructors report all
// problems they find, joined: print the error, one problem a line, or range over
// [ConfigErrors]. It never holds a secret.
type ConfigError struct {
	Field   string // where: a path in Go syntax, such as Limits[1].Window
	Problem string // what is wrong and what is permitted
}

// Error returns "Field: Problem".
func (e *ConfigError) Error() string { return e.Field + ": " + e.Problem }

// ConfigErrors yields the problems in the error of a constructor, in order and
// however deep they are wrapped and joined. [errors.As] would find the first alone.
func ConfigErrors(err error) iter.Seq[*ConfigError] {
	return func(yield func(*ConfigError) bool) { eachConfigError(err, yield) }
}

// eachConfigError reports whether yield wants more.
func eachConfigError(err error, yield func(*ConfigError) bool) bool {
	switch e := err.(type) {
	case *ConfigError:
		return yield(e)
	case interface{ Unwrap() error }:
		return eachConfigError(e.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if !eachConfigError(err, yield) {
				return false
			}
		}
	}
	return true
}
