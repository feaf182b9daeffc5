// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// A Config says how much a counter takes ahead. It is plain data.
type Config struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Block is the most that is taken ahead for a key. Default: 64. Permitted: 2
	// to 65536.
	Block int64

	// Instances is how many of them share the engine: a block is at most the twentieth part of an
	// even share of what is left. With a larger number a killed process strands less of a small
	// quota. Default: 1.
	Instances int64

	// Idle is how long a block may lie unused before it is given back. Default:
	// 1 s. Permitted: from 10 ms to 1 h.
	Idle time.Duration

	// Now is the clock, [time.Now] by default. It need not agree with the engine's.
	Now func() time.Time
}

// withDefaults returns l with what it leaves zero filled in.
func (l Config) withDefaults() Config {
	l.Block = cmp.Or(l.Block, 64)
	l.Instances = cmp.Or(l.Instances, 1)
	l.Idle = cmp.Or(l.Idle, time.Second)
	if l.Now == nil {
		l.Now = time.Now
	}
	return l
}

// check reports all problems of l, which has its defaults.
func (l Config) check(counter exact.Counter) error {
	var errs []error
	if counter == nil {
		errs = append(errs, &storeless.ConfigError{Field: "counter", Problem: "is required"})
	}
	if l.Block < 2 || l.Block > 65536 {
		errs = append(errs, &storeless.ConfigError{Field: "Block", Problem: fmt.Sprintf("must be from 2 to 65536, or 0 for 64, not %d", l.Block)})
	}
	if l.Instances < 1 || l.Instances > 1<<20 {
		errs = append(errs, &storeless.ConfigError{Field: "Instances", Problem: fmt.Sprintf("must be from 1 to 1048576, or 0 for 1, not %d", l.Instances)})
	}
	if l.Idle < 10*time.Millisecond || l.Idle > time.Hour {
		errs = append(errs, &storeless.ConfigError{Field: "Idle", Problem: fmt.Sprintf("must be from 10 ms to 1 h, or 0 for 1 s, not %s", span.Text(l.Idle))})
	}
	return errors.Join(errs...)
}
