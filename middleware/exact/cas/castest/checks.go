// SPDX-License-Identifier: Apache-2.0

package castest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/exact/cas"
)

func absent(r *run) {
	r.holds("")
	r.holds("")
}

func kept(r *run) {
	for _, value := range []string{"\x02", "another", "\x00 any \xff byte \n", "\x02"} {
		r.put(value)
	}
}

func raced(r *run) {
	_, none := r.load()
	first := r.put("first")
	r.loses("from a client that has read nothing", none, "first")
	second := r.put("second")
	r.loses("from a client that has read the value before", first, "second")
	r.loses("from a client that has read nothing, once more", none, "second")
	r.no("a swap from a client that has read the value", r.swap(second, "third"))
}

func fresh(r *run) {
	_, revision := r.load()
	seen := map[string]bool{revision: true}
	for n := range 10 {
		if revision = r.put("the same bytes"); seen[revision] {
			r.fail("swap %d has a revision that the name has had: a client that has read it would win", n)
		}
		seen[revision] = true
	}
}

func apart(r *run) {
	other := newRun(r.Store)
	r.put("one")
	other.put("two")
	r.holds("one")
}

func sizes(r *run, largest int) {
	for size := 1; ; size = min(7*size, largest) {
		value := make([]byte, size)
		_, _ = rand.Read(value) // it never fails
		if r.put(string(value)); size == largest {
			return
		}
	}
}

// oneWins has many race from one revision.
func oneWins(r *run) {
	for round := range 10 {
		_, revision := r.load()
		const racers = 16
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for n := range racers {
			wg.Go(func() { errs[n] = r.swap(revision, fmt.Sprint("round ", round, " of ", n)) })
		}
		wg.Wait()
		winner := -1
		for n, err := range errs {
			switch {
			case errors.Is(err, cas.ErrChanged):
			case err != nil:
				r.no("a swap", err)
			case winner >= 0:
				r.fail("both %d and %d have won from one revision", winner, n)
			default:
				winner = n
			}
		}
		if winner < 0 {
			r.fail("of %d racing callers none wins", racers)
		}
		r.holds(fmt.Sprint("round ", round, " of ", winner))
	}
}

const counters, each = 4, 25 // of nothingLost

// nothingLost has some count to a number together.
func nothingLost(r *run) {
	errs := make([]error, counters)
	var wg sync.WaitGroup
	for n := range counters {
		wg.Go(func() {
			errs[n] = r.found(func(r *run) {
				for range each {
					r.increment()
				}
			})
		})
	}
	wg.Wait()
	r.no("counting", errors.Join(errs...))
	r.holds(strconv.Itoa(counters * each))
}

// increment adds one. Each race that is lost another has won: there are no more of them.
func (r *run) increment() {
	for range counters * each {
		value, revision := r.load()
		n := 0
		if value != "" {
			var err error
			n, err = strconv.Atoi(value)
			r.no("a number", err)
		}
		if err := r.swap(revision, strconv.Itoa(n+1)); !errors.Is(err, cas.ErrChanged) {
			r.no("swap", err)
			return
		}
	}
	r.fail("%d races are lost: more than can be won", counters*each)
}

func ended(r *run) {
	revision := r.put("before")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := r.Load(ctx, r.name); err == nil {
		r.fail("a load has no error")
	}
	if err := r.Swap(ctx, r.name, revision, []byte("after"), forAMinute); err == nil {
		r.fail("a swap has no error")
	}
}

// keeps has a value be kept for a short time, and then, by another swap, for longer: it
// must be there when the short time is over.
func keeps(r *run) {
	for _, first := range []bool{true, false} { // also of one that was there before
		if !first {
			r = newRun(r.Store)
			r.put("before")
		}
		_, revision := r.load()
		r.no("swap", r.Swap(context.Background(), r.name, revision, []byte("for a second"), time.Second))
		r.put("for a minute")
		over := time.NewTimer(1500 * time.Millisecond) // stores count in whole seconds, or look once in one
		<-over.C
		r.no("a value that was to be kept for a second, and then for a minute, after a second and a half",
			r.found(func(r *run) { r.holds("for a minute") }))
	}
	// Whether it is there or not: an instance that reads and swaps wins.
	r.put("afterwards")
}

// tells has a store that says what time it is load by that as it loads without, and its time
// go forward.
func tells(r *run) {
	timed, ok := r.Store.(cas.TimedStore)
	if !ok {
		return
	}
	_, revision, before, err := timed.LoadAt(context.Background(), r.name)
	r.no("load", err)
	r.no("a swap from a client that has loaded nothing with the time", r.swap(revision, "a value"))
	want := r.holds("a value")
	value, revision, after, err := timed.LoadAt(context.Background(), r.name)
	r.no("load", err)
	switch {
	case string(value) != "a value" || revision != want:
		r.fail("with the time, %d bytes of another value or revision are loaded", len(value))
	case before.IsZero() || after.Before(before):
		r.fail("the time was %s, and then %s", before, after)
	}
}

// lists checks that a store which lists has what was kept, and stops where it is told.
func lists(r *run) {
	store, ok := r.Store.(cas.ListedStore)
	if !ok {
		return
	}
	const value = "of a list"
	r.put(value)
	enough, found := errors.New("enough"), errors.New("it is not listed")
	err := store.Each(context.Background(), func(name string, got []byte) error {
		switch {
		case name != r.name:
			return nil
		case string(got) != value:
			found = fmt.Errorf("%q is listed, want %q", got, value)
		default:
			found = nil
		}
		return enough
	})
	if found == nil && !errors.Is(err, enough) {
		found = fmt.Errorf("it was told to stop by an error, and returns %v", err)
	}
	r.no("Each", found)
}
