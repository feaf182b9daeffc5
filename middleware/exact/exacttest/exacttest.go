// SPDX-License-Identifier: Apache-2.0

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
// It does not test what a counter keeps when its engine fails: that is for tests that know how to
// make it fail. One such fault is worth a hook of a [Suite], LoseAnswer: a call is done, and is not
// known to be done.
package exacttest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tallystick/tallystick/middleware/exact"
)

// A Suite says what is tested, and how far.
type Suite struct {
	_ [0]func() // fields may be added: only keyed literals, no comparison

	// Open opens a counter for one check. The counters may share what they count in: no two
	// checks use the same keys. One that has a Close method is closed. Required.
	Open func() (exact.Counter, error)

	// Clock is the one that they go by; nil for counters of an engine with a clock of its
	// own, where the checks that need time to pass are left out.
	Clock *Clock

	// LoseAnswer has the next call that the counter makes of its engine be done there, and its
	// answer be lost: a commit that says that it failed, a connection that is cut after the command
	// was read. Nil for a counter that can lose none, because it calls no engine.
	LoseAnswer func(exact.Counter)

	// OneProcess says that an ID is known to the counter that has taken it alone, and not to
	// others on the same engine. Otherwise Open must open counters that share what they count in.
	OneProcess bool
}

// TestCounter runs a [Suite] of a counter that calls no engine, so that no answers can be lost.
func TestCounter(open func() (exact.Counter, error), clock *Clock) error {
	return (&Suite{Open: open, Clock: clock, OneProcess: true}).Test()
}

// Test returns everything that is wrong with the counters, joined.
func (s *Suite) Test() error {
	var errs []error
	for _, check := range []struct {
		name string
		when need
		run  func(*run)
	}{
		{"exact on a hot key", 0, hotKey},
		{"exact on many keys", 0, manyKeys},
		{"all limits or none", 0, allOrNone},
		{"costs", 0, costs},
		{"costs of each limit", 0, ownCosts},
		{"peek charges nothing", 0, peek},
		{"policies count apart", 0, policiesApart},
		{"an ID is counted once", 0, ids},
		{"an ID is counted once, at once", 0, idsAtOnce},
		{"calls in one go", 0, batches},
		{"a refund is given once", 0, refunds},
		{"a refund of a part", 0, partRefunds},
		{"a receipt that was made up", 0, madeUp},
		{"a refund of long ago", 0, refundsOfLongAgo},
		{"mistaken calls", 0, mistakes},
		{"a context that has ended", 0, ended},
		{"a larger quota applies at once", 0, upgrade},
		{"of two ends of a window the later holds", aClock, laterEnd},
		{"a refund in its own window", aClock, lateRefunds},
		{"a clock that steps back", aClock, stepBack},
		{"a clock that steps back before a debt, a pause or a booking", aClock, owedBack},
		{"a clock that was ahead", aClock, wrongClock},
		{"a clock that is ahead for a moment", aClock, momentAhead},
		{"an ID is known to all", sharedIDs, idsElsewhere},
		{"an answer that is lost", aLostAnswer, lostTake},
		{"an answer of a refund that is lost", aLostAnswer, lostRefund},
		{"past the limit", 0, past},
		{"booked one behind the other", 0, bookings},
		{"booked at once", 0, bookingsAtOnce},
		{"a booking that is given back", 0, bookingsBack},
		{"a limit that joins a booking", 0, joined},
		{"booked in time", aClock, bookingsWait},
		{"a pause", 0, pauses},
		{"a pause ends", aClock, pauseEnds},
		{"mistaken calls for later", 0, mistakesAhead},
		{"every call agrees with an account", aClock, accounts},
		{"an account that moves is the same", aClock, archives},
		{"an account that counts nothing moves", aClock, emptied},
		{"an account that is forgotten", 0, forgotten},
	} {
		if !s.has(check.when) {
			continue
		}
		if err := s.one(check.run); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", check.name, err))
		}
	}
	return errors.Join(errs...)
}

// A need names what a check cannot do without.
type need uint8

const (
	aClock need = 1 << iota
	aLostAnswer
	sharedIDs
)

func (s *Suite) has(n need) bool {
	return (n&aClock == 0 || s.Clock != nil) && (n&aLostAnswer == 0 || s.LoseAnswer != nil) &&
		(n&sharedIDs == 0 || !s.OneProcess)
}

var runs atomic.Int64 // keeps the keys of checks apart

// one runs a check, whose time begins where the check before began.
func (s *Suite) one(check func(*run)) (err error) {
	r := &run{clock: s.Clock, another: s.Open, loseAnswer: s.LoseAnswer}
	r.name = fmt.Sprintf("exacttest-%d-%d", time.Now().UnixNano(), runs.Add(1))
	return found(func() {
		var done func() error
		r.Counter, done = r.open()
		if s.Clock != nil {
			start := s.Clock.Now()
			defer func() { s.Clock.Advance(start.Sub(s.Clock.Now())) }()
		}
		err := errors.Join(found(func() { check(r) }), done())
		r.no(err)
	})
}
