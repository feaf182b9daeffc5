// Package exacttest tells whether a counter counts exactly. A package that implements
// [exact.Counter] runs it in a test:
//
//	func TestCounter(t *testing.T) {
//		clock := exacttest.NewClock()
//		err := exacttest.TestCounter(func() (exact.Counter, error) { return newCounter(clock.Now) }, clock)
//		if err != nil {
//			t.Fatal(err)
//		}
//	}
//
// It cannot tell what a counter keeps when its engine fails: that is for tests that
// know how to make it fail.
package exacttest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// TestCounter opens counters, each for one check, and returns everything that is
// wrong with them, joined. clock is the one they go by; nil for counters of an
// engine with a clock of its own, where the checks that need time to pass are left
// out. The counters may share what they count in: no two checks use the same keys.
// A counter that has a Close method is closed.
func TestCounter(open func() (exact.Counter, error), clock *Clock) error {
	var errs []error
	for _, check := range []struct {
		name   string
		timely bool // needs the clock
		run    func(*run) error
	}{
		{"exact on a hot key", false, hotKey},
		{"exact on many keys", false, manyKeys},
		{"all limits or none", false, allOrNone},
		{"costs", false, costs},
		{"peek charges nothing", false, peek},
		{"policies count apart", false, policiesApart},
		{"an ID is counted once", false, ids},
		{"an ID is counted once, at once", false, idsAtOnce},
		{"calls in one go", false, batches},
		{"a refund is given once", false, refunds},
		{"a refund of a part", false, partRefunds},
		{"mistaken calls", false, mistakes},
		{"a context that has ended", false, ended},
		{"a larger quota applies at once", false, upgrade},
		{"every algorithm is that of storeless", true, algorithms},
		{"a sliding log is a log", true, slidingLog},
		{"a rolling day is never over", true, rollingDay},
		{"when a log says to come back", true, logWaits},
		{"a refund in its own window", true, lateRefunds},
		{"a clock that steps back", true, stepBack},
		{"a clock that was ahead", true, wrongClock},
	} {
		if check.timely && clock == nil {
			continue
		}
		if err := one(open, clock, check.name, check.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(errs...)
}

var runs atomic.Int64 // keeps the keys of checks apart

func one(open func() (exact.Counter, error), clock *Clock, name string, check func(*run) error) (err error) {
	c, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if closer, ok := c.(interface{ Close() error }); ok {
		defer func() {
			if e := closer.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("close: %w", e))
			}
		}()
	}
	return check(&run{c, clock, fmt.Sprintf("exacttest-%d-%d", time.Now().UnixNano(), runs.Add(1))})
}
