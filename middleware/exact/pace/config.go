package pace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/storeless"
)

// Defaults of a [Config].
const (
	defaultWaiting  = 1000
	defaultWait     = time.Minute
	defaultDeadline = time.Second
)

// A Config says what is limited, and who may wait for it. It is plain data; [New] checks it
// and copies it.
type Config struct {
	// Counter is what all processes share. Required.
	Counter exact.Counter

	// Name is that of the limited service. Processes that give the same Name, Key and
	// Limits to the same Counter share one line. Permitted: a policy's name, 1 to 26 of a-z,
	// 0-9 and "-"; with the longest name of Units and another "-", 32 together.
	Name string

	// Key tells whose quota it is, where a service grants several: an account there.
	// Permitted: up to [exact.MaxKey] bytes. Default: Name.
	Key string

	// Limits are those on requests. All must be a [storeless.LeakyBucket] or a
	// [storeless.TokenBucket]: see the package on which to take.
	Limits []storeless.Limit

	// Units are the limits on what calls use besides, by its name: tokens of a model, say,
	// with a [Cost] for each call. Permitted: up to three units (four without Limits).
	Units map[string][]storeless.Limit

	// MaxWaiting is how many calls wait in this process at most. Default: 1000.
	MaxWaiting int

	// MaxWait is how long a call waits at most. Permitted: up to [exact.MaxAhead].
	// Default: one minute.
	MaxWait time.Duration

	// Deadline is for each call of the counter. Default: one second.
	Deadline time.Duration
}

// check fills in defaults and compiles the limits, and reports every mistake.
func (cfg *Config) check() (*desk, error) {
	var errs []error
	problem := func(field, format string, args ...any) {
		errs = append(errs, &storeless.ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if cfg.Counter == nil {
		problem("Counter", "is required: NewMemory of package exact, for one process")
	}
	if cfg.Key == "" {
		cfg.Key = cfg.Name
	}
	if len(cfg.Key) > exact.MaxKey {
		problem("Key", "must have at most %d bytes", exact.MaxKey)
	}
	if len(cfg.Limits)+len(cfg.Units) == 0 {
		problem("Limits", "must have a limit, or Units must")
	}
	bound := func(field string, value *time.Duration, most, otherwise time.Duration) {
		if *value < 0 || *value > most {
			problem(field, "must be up to %s, not %s; 0 is %s", most, *value, otherwise)
		}
		if *value == 0 {
			*value = otherwise
		}
	}
	bound("MaxWait", &cfg.MaxWait, exact.MaxAhead, defaultWait)
	bound("Deadline", &cfg.Deadline, time.Minute, defaultDeadline)
	if cfg.MaxWaiting < 0 {
		problem("MaxWaiting", "must be at least 1, not %d; 0 is %d", cfg.MaxWaiting, defaultWaiting)
	}
	if cfg.MaxWaiting == 0 {
		cfg.MaxWaiting = defaultWaiting
	}
	d := &desk{counter: cfg.Counter, key: cfg.Key, deadline: cfg.Deadline}
	compile := func(field, name string, limits []storeless.Limit) *exact.Policy {
		for i, l := range limits {
			if l.Algorithm != storeless.LeakyBucket && l.Algorithm != storeless.TokenBucket {
				problem(fmt.Sprintf("%s[%d].Algorithm", field, i), "%s", noMoment(l))
			}
		}
		p, err := exact.Compile(name, limits)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
		return p
	}
	add := func(field, unitName, policy string, limits []storeless.Limit) {
		if p := compile(field, policy, limits); p != nil && len(errs) == 0 {
			d.units = append(d.units, newUnit(unitName, p))
		}
	}
	if len(cfg.Limits) > 0 {
		add("Limits", "", cfg.Name, cfg.Limits)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Units)) {
		if name == "" {
			problem("Units", "has a unit without a name; requests are counted by Limits")
			continue
		}
		add("Units["+name+"]", name, cfg.Name+"-"+name, cfg.Units[name])
	}
	if n := len(cfg.Units) + min(1, len(cfg.Limits)); n > maxUnits {
		problem("Units", "has too many: with requests there are %d units, and %d is the most", n, maxUnits)
	}
	if cfg.Units[gateName] != nil {
		problem("Units", "has a unit %q, which is the name of something else", gateName)
	}
	d.gate = compile("Name", cfg.Name+"-"+gateName, []storeless.Limit{{Algorithm: storeless.LeakyBucket, Quota: 1, Window: time.Second}})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pace: %w", err)
	}
	return d, nil
}

// gateName follows the name of the limited service, in that of the account of its pauses.
const gateName = "pause"

// noMoment says why there is no waiting for a limit, and what to write in its place.
func noMoment(l storeless.Limit) string {
	return fmt.Sprintf("must be LeakyBucket or TokenBucket, not %s: what counts in windows has no moment to wait for, only a time after which less of it is used, and then all who wait for it wake together; "+
		"LeakyBucket{%d a %s} never lets more than %d through in any %s, TokenBucket at most its Burst more",
		l.Algorithm, l.Quota, l.Window, l.Quota, l.Window)
}
