// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"iter"

	"github.com/tallystick/tallystick/storeless"
)

// Limit is [storeless.Limit], so that most programs import this package alone: Quota requests
// in each Window, by an Algorithm, with a Name if it may ever change, a Burst for a bucket,
// and Shadow to try it.
type Limit = storeless.Limit

// ConfigError is [storeless.ConfigError]: one problem of a [Config].
type ConfigError = storeless.ConfigError

// ConfigErrors is [storeless.ConfigErrors]: it yields the problems in an error of New,
// one by one.
func ConfigErrors(err error) iter.Seq[*ConfigError] { return storeless.ConfigErrors(err) }

// The algorithms of [storeless.Algorithm].
const (
	SlidingWindow = storeless.SlidingWindow
	FixedWindow   = storeless.FixedWindow
	TokenBucket   = storeless.TokenBucket
	LeakyBucket   = storeless.LeakyBucket
	SlidingLog    = storeless.SlidingLog // SlidingLog and RollingDay want Config.Exact
	RollingDay    = storeless.RollingDay
)
