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

func absent(r *run) error {
	for range 2 {
		if _, err := r.holds(""); err != nil {
			return err
		}
	}
	return nil
}

func kept(r *run) error {
	for _, value := range []string{"\x02", "another", "\x00 any \xff byte \n", "\x02"} {
		if _, err := r.put(value); err != nil {
			return err
		}
	}
	return nil
}

func raced(r *run) error {
	_, none, err := r.load()
	if err != nil {
		return err
	}
	first, err := r.put("first")
	if err != nil {
		return err
	}
	if err := r.loses("of who has read that there is nothing", none, "first"); err != nil {
		return err
	}
	second, err := r.put("second")
	if err != nil {
		return err
	}
	return errors.Join(
		r.loses("of who has read what was there before", first, "second"),
		r.loses("of who has read that there is nothing, once more", none, "second"),
		r.swap(second, "third"))
}

func fresh(r *run) error {
	_, revision, err := r.load()
	if err != nil {
		return err
	}
	seen := map[string]bool{revision: true}
	for n := range 10 {
		if revision, err = r.put("the same bytes"); err != nil {
			return err
		}
		if seen[revision] {
			return fmt.Errorf("swap %d has a revision that the name has had: who has read that would win", n)
		}
		seen[revision] = true
	}
	return nil
}

func apart(r *run) error {
	other := newRun(r.Store)
	if _, err := r.put("one"); err != nil {
		return err
	}
	if _, err := other.put("two"); err != nil {
		return err
	}
	_, err := r.holds("one")
	return err
}

func sizes(r *run, largest int) error {
	for size := 1; ; size = min(7*size, largest) {
		value := make([]byte, size)
		_, _ = rand.Read(value) // it never fails
		if _, err := r.put(string(value)); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if size == largest {
			return nil
		}
	}
}

// oneWins has many race from one revision.
func oneWins(r *run) error {
	for round := range 10 {
		_, revision, err := r.load()
		if err != nil {
			return err
		}
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
				return err
			case winner >= 0:
				return fmt.Errorf("both %d and %d have won from one revision", winner, n)
			default:
				winner = n
			}
		}
		if winner < 0 {
			return fmt.Errorf("of %d who race, none wins", racers)
		}
		if _, err := r.holds(fmt.Sprint("round ", round, " of ", winner)); err != nil {
			return fmt.Errorf("what the winner has swapped in: %w", err)
		}
	}
	return nil
}

const counters, each = 4, 25 // of nothingLost

// nothingLost has some count to a number together.
func nothingLost(r *run) error {
	errs := make([]error, counters)
	var wg sync.WaitGroup
	for n := range counters {
		wg.Go(func() {
			for range each {
				if errs[n] = r.increment(); errs[n] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := r.holds(strconv.Itoa(counters * each))
	return err
}

// increment adds one. Each race that is lost another has won: there are no more of them.
func (r *run) increment() error {
	for range counters * each {
		value, revision, err := r.load()
		if err != nil {
			return err
		}
		n := 0
		if len(value) > 0 {
			if n, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
		if err := r.swap(revision, strconv.Itoa(n+1)); !errors.Is(err, cas.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%d races are lost, where so many cannot be won", counters*each)
}

func ended(r *run) error {
	revision, err := r.put("before")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := r.Load(ctx, r.name); err == nil {
		return errors.New("a load has no error")
	}
	if err := r.Swap(ctx, r.name, revision, []byte("after"), forAMinute); err == nil {
		return errors.New("a swap has no error")
	}
	return nil
}

// keeps has a value be kept for a short time, and then, by another swap, for longer: it
// must be there when the short time is over.
func keeps(r *run) error {
	for _, first := range []bool{true, false} { // also of one that was there before
		if !first {
			r = newRun(r.Store)
			if _, err := r.put("before"); err != nil {
				return err
			}
		}
		_, revision, err := r.load()
		if err != nil {
			return err
		}
		if err := r.Swap(context.Background(), r.name, revision, []byte("for a second"), time.Second); err != nil {
			return err
		}
		if _, err := r.put("for a minute"); err != nil {
			return err
		}
		over := time.NewTimer(1500 * time.Millisecond) // stores count in whole seconds, or look once in one
		<-over.C
		if _, err := r.holds("for a minute"); err != nil {
			return fmt.Errorf("a value that was to be kept for a second, and then for a minute, after a second and a half: %w", err)
		}
	}
	// Whether it is there or not: who reads and swaps wins.
	_, err := r.put("afterwards")
	return err
}

// tells has a store that says what time it is load by that as it loads without, and its time
// go forward.
func tells(r *run) error {
	timed, ok := r.Store.(cas.TimedStore)
	if !ok {
		return nil
	}
	_, revision, before, err := timed.LoadAt(context.Background(), r.name)
	if err != nil {
		return err
	}
	if err := r.swap(revision, "a value"); err != nil {
		return fmt.Errorf("a swap of who has loaded with the time that there is nothing: %w", err)
	}
	want, err := r.holds("a value")
	if err != nil {
		return err
	}
	value, revision, after, err := timed.LoadAt(context.Background(), r.name)
	switch {
	case err != nil:
		return err
	case string(value) != "a value" || revision != want:
		return fmt.Errorf("with the time, %d bytes of another value or revision are loaded", len(value))
	case before.IsZero() || after.Before(before):
		return fmt.Errorf("the time was %s, and then %s", before, after)
	}
	return nil
}

// lists checks that a store which lists has what was kept, and stops where it is told.
func lists(r *run) error {
	store, ok := r.Store.(cas.ListedStore)
	if !ok {
		return nil
	}
	const value = "of a list"
	if _, err := r.put(value); err != nil {
		return err
	}
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
	return found
}
