// SPDX-License-Identifier: Apache-2.0

package cas_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/exacttest"
	"github.com/tallystick/tallystick/proof/exactkit"
	"github.com/tallystick/tallystick/storeless"
)

// A shelf is a store in memory, to which everything can happen that happens to stores. It
// forgets a value at the moment from which it may.
type shelf struct {
	now func() time.Time

	mu     sync.Mutex
	values map[string]kept
	serial int
	loads  int
	swaps  int // that were asked for
	done   int // that were done
	keeps  []time.Duration
	most   int // bytes of a value; 0: any number

	loading  func(load int) error                      // before a load
	swapping func(ctx context.Context, swap int) error // before a swap
	answers  func(swap int) error                      // after one that was done
}

type kept struct {
	value    string
	revision string
	ends     time.Time
}

func newShelf(now func() time.Time) *shelf {
	return &shelf{now: now, values: make(map[string]kept)}
}

func (s *shelf) Load(ctx context.Context, name string) ([]byte, string, error) {
	s.mu.Lock()
	s.loads++
	n, loading := s.loads, s.loading
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if loading != nil {
		if err := loading(n); err != nil {
			return nil, "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.live(name)
	return []byte(k.value), k.revision, nil
}

// live returns what is kept under a name. s.mu is held.
func (s *shelf) live(name string) kept {
	k := s.values[name]
	if !k.ends.After(s.now()) {
		return kept{}
	}
	return k
}

func (s *shelf) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	s.mu.Lock()
	s.swaps++
	n, swapping, answers := s.swaps, s.swapping, s.answers
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return errors.Join(exact.ErrNotCounted, err)
	}
	if s.most > 0 && len(value) > s.most {
		return exact.ErrFull
	}
	if swapping != nil {
		if err := swapping(ctx, n); err != nil {
			return err
		}
	}
	if !s.swap(name, revision, value, keep) {
		return cas.ErrChanged
	}
	if answers != nil {
		return answers(n)
	}
	return nil
}

func (s *shelf) swap(name, revision string, value []byte, keep time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live(name).revision != revision {
		return false
	}
	s.serial++
	s.done++
	s.keeps = append(s.keeps, keep)
	s.values[name] = kept{string(value), strconv.Itoa(s.serial), s.now().Add(keep)}
	return true
}

// figures returns how many loads and swaps were asked for, and how many swaps were done.
func (s *shelf) figures() (loads, swaps, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads, s.swaps, s.done
}

func (s *shelf) Each(ctx context.Context, f func(name string, value []byte) error) error {
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	for name := range values {
		value, _, err := s.Load(ctx, name)
		if err == nil {
			err = f(name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What stores have from earlier versions is counted on with, and what a later one has written is refused
// by name, and left as it is: it is never taken for nothing.
func TestAccountsOfOtherVersions(t *testing.T) {
	accounts := exactkit.Earlier(t)
	p := exactkit.Compile(t, storeless.Limit{Name: "fixed", Algorithm: storeless.FixedWindow, Quota: 600, Window: time.Hour})
	name, call := cas.StoreName(p.AccountName("k")), exact.Call{Key: "k", Cost: 1, Policy: p}
	for version, value := range accounts {
		t.Run(version, func(t *testing.T) {
			clock := exacttest.NewClock()
			clock.Advance(35 * time.Second)
			store := newShelf(clock.Now)
			c, err := cas.New(store, cas.Config{Now: clock.Now})
			require.NoError(t, err)
			require.True(t, store.swap(name, "", value, time.Hour))
			require.EqualValues(t, 595, exactkit.Take(t, c, call).Limits[0].Remaining, "four of five, and this one")

			later := "\x05" + string(value[1:])
			require.True(t, store.swap(name, store.values[name].revision, []byte(later), time.Hour))
			_, err = c.Take(t.Context(), call)
			require.ErrorIs(t, err, exact.ErrNotCounted)
			require.ErrorContains(t, err, "an account in format 5, of a later version")
			require.Equal(t, later, store.values[name].value)
		})
	}
}
