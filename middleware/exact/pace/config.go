// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Defaults of a [Config].
const (
	defaultWaiting  = 1000
	defaultWait     = time.Minute
	defaultDeadline = time.Second
)

// A Config says what is limited, and which calls may wait for it. It is plain data; [New]
// checks it and copies it.
type Config struct {
	// Counter is shared by all processes. Required.
	Counter exact.Counter

	// Name names the limited service. Processes that give the same Name, Key and Limits to
	// the same Counter share one queue. Permitted: a policy's name, 1 to 26 of a-z, 0-9 and
	// "-"; with the longest name of Units and another "-", 32 together.
	Name string

	// Key tells whose quota it is, where a service grants several: an account there.
	// Permitted: up to [exact.MaxKey] bytes. Default: Name.
	Key string

	// Limits are the limits on requests. All must be a [storeless.LeakyBucket]
	// or a [storeless.TokenBucket]: the package says which to take.
	Limits []storeless.Limit

	// Units are limits on other things that calls use, by name: tokens of a model, say,
	// with a [Cost] for each call. Permitted: up to three units (four without Limits).
	Units map[string][]storeless.Limit

	// MaxWaiting bounds the calls that wait in this process. Default: 1000.
	MaxWaiting int

	// MaxWait is how long a call waits at most. Permitted: up to [exact.MaxAhead].
	// Default: one minute.
	MaxWait time.Duration

	// Deadline is for each call of the counter. Default: one second.
	Deadline time.Duration
}

// check fills in defaults and compiles the limits, and reports every mistake.
func (cfg *Config) check() (*desk, error) {
	var m mistakes
	if cfg.Counter == nil {
		m.add("Counter", "is required: New of package exact/memory, for one process")
	}
	cfg.Key = cmp.Or(cfg.Key, cfg.Name)
	if len(cfg.Key) > exact.MaxKey {
		m.add("Key", "must have at most %d bytes", exact.MaxKey)
	}
	if cfg.MaxWaiting < 0 {
		m.add("MaxWaiting", "must be at least 1, not %d; 0 is %d", cfg.MaxWaiting, defaultWaiting)
	}
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, defaultWaiting)
	m.bound("MaxWait", &cfg.MaxWait, exact.MaxAhead, defaultWait)
	m.bound("Deadline", &cfg.Deadline, time.Minute, defaultDeadline)
	d := &desk{counter: cfg.Counter, key: cfg.Key, deadline: cfg.Deadline}
	cfg.compile(d, &m)
	if err := errors.Join(m...); err != nil {
		return nil, fmt.Errorf("pace: %w", err)
	}
	return d, nil
}

// compile compiles the limits of each unit, and what stands for pauses.
func (cfg *Config) compile(d *desk, m *mistakes) {
	name, gate := cfg.Name, []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}}
	var err error
	if d.gate, err = exact.Compile(name+"-"+gateName, gate); err != nil || name == "" {
		m.add("Name", "must be 1 to %d of a-z, 0-9 and -", longestPolicy-len("-"+gateName))
		name = "a" // complained of once
	}
	switch n := len(cfg.Units) + min(1, len(cfg.Limits)); {
	case n == 0:
		m.add("Limits", "must have a limit, or Units must")
	case n > maxUnits:
		m.add("Units", "has too many: with requests there are %d units, and %d is the most", n, maxUnits)
	}
	unit := func(field, unitName, policy string, limits []storeless.Limit) {
		for i, l := range limits {
			if l.Algorithm != storeless.LeakyBucket && l.Algorithm != storeless.TokenBucket {
				m.add(fmt.Sprintf("%s[%d].Algorithm", field, i), "%s", noMoment(l))
			}
		}
		p, err := exact.Compile(policy, limits)
		if err != nil {
			*m = append(*m, fmt.Errorf("%s: %w", field, err))
			return
		}
		d.units = append(d.units, newUnit(unitName, p))
	}
	if len(cfg.Limits) > 0 {
		unit("Limits", "", name, cfg.Limits)
	}
	for _, of := range slices.Sorted(maps.Keys(cfg.Units)) {
		switch of {
		case "":
			m.add("Units", "has a unit without a name; requests are counted by Limits")
		case gateName:
			m.add("Units", "has a unit %q, which is the name of something else", gateName)
		default:
			unit("Units["+of+"]", of, name+"-"+of, cfg.Units[of])
		}
	}
}

// mistakes are all there are in a Config.
type mistakes []error

func (m *mistakes) add(field, format string, args ...any) {
	*m = append(*m, &storeless.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// bound checks a duration, and fills in its default.
func (m *mistakes) bound(field string, value *time.Duration, most, otherwise time.Duration) {
	if *value < 0 || *value > most {
		m.add(field, "must be up to %s, not %s; 0 is %s", span.Text(most), span.Text(*value), span.Text(otherwise))
	}
	*value = cmp.Or(*value, otherwise)
}

const (
	// gateName ends the name of the account that holds a service's pauses.
	gateName = "pause"

	// longestPolicy is how long the name of a policy may be, see [exact.Compile].
	longestPolicy = 32
)

// noMoment says why there is no waiting for a limit, and what to write in its place.
func noMoment(l storeless.Limit) string {
	window := cmp.Or(l.Calendar, span.Text(l.Window))
	return fmt.Sprintf("must be LeakyBucket or TokenBucket, not %s: a window gives no moment to wait for, only a time after which less of it is used, and then all that wait for it wake together; "+
		"LeakyBucket{%d a %s} never lets more than %d through in any %s, TokenBucket at most its Burst more",
		l.Algorithm, l.Quota, window, l.Quota, window)
}
