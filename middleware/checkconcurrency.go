// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// most is the largest Max, which is that of a sliding log.
const most = exact.MaxLog

// check reports every problem of c, which has its defaults.
func (c *Concurrency) check(cfg *Config) (errs []error) {
	problem := func(field, format string, args ...any) {
		errs = append(errs, &ConfigError{Field: "Concurrency." + field, Problem: fmt.Sprintf(format, args...)})
	}
	if c.Max < 1 || c.Max > most {
		problem("Max", "must be from 1 to %d, not %d", most, c.Max)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tiers)) {
		if _, ok := cfg.Tiers[name]; !ok {
			problem(fmt.Sprintf("Tiers[%q]", name), "there is no such tier in Config.Tiers")
		} else if n := c.Tiers[name]; n < 1 || n > most {
			problem(fmt.Sprintf("Tiers[%q]", name), "must be from 1 to %d, not %d", most, n)
		}
	}
	if c.MaxHold < 2*time.Second || c.MaxHold > time.Hour {
		problem("MaxHold", "must be from 2s to 1h, or 0 for 30s, not %s", c.MaxHold)
	}
	if c.MaxHold%time.Second != 0 {
		problem("MaxHold", "must be whole seconds, not %s", c.MaxHold)
	}
	if c.Queue < 0 || c.Queue > most {
		problem("Queue", "must be from 0 to %d, not %d", most, c.Queue)
	}
	if c.QueueAll < c.Queue || c.QueueAll > most {
		problem("QueueAll", "must be from Queue to %d, or 0 for 1000, not %d", most, c.QueueAll)
	}
	if c.Queue > 0 && cfg.Exact != nil {
		problem("Queue", "cannot go with Exact: nobody can stand in line at a counter")
	}
	return errs
}

// leases compiles the limit by which a counter leases slots. A
// slot is a charge of a sliding log, which ends by itself after MaxHold, or when it is
// given back: so a counter needs nothing else for it.
func (c *Concurrency) leases(cfg *Config, tier string) (*exact.Policy, error) {
	return exact.Compile(cfg.Policy, []storeless.Limit{
		{Name: "at-once", Quota: int64(c.maxFor(tier)), Window: c.MaxHold, Algorithm: storeless.SlidingLog},
	})
}
