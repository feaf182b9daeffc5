// SPDX-License-Identifier: Apache-2.0

package castest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact/cas"
	"github.com/tallystick/tallystick/middleware/exact/cas/castest"
	"github.com/tallystick/tallystick/proof/kit"
)

// A shelf is a store in memory, which can be wrong in every way that the suite knows.
type shelf struct {
	wrong string

	mu     sync.Mutex
	values map[string]kept
	serial int
}

type kept struct {
	value, revision string
	before          content
	ends            time.Time
}

type content struct{ value, revision string }

func (s *shelf) Load(ctx context.Context, name string) ([]byte, string, error) {
	if err := ctx.Err(); err != nil && s.wrong != "contexts" {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.live(name)
	if s.wrong == "reads what was before" {
		return []byte(k.before.value), k.before.revision, nil
	}
	return []byte(k.value), k.revision, nil
}

func (s *shelf) live(name string) kept {
	k, known := s.values[name]
	if known && !k.ends.After(time.Now()) {
		return kept{}
	}
	if !known && s.wrong == "makes up values" {
		return kept{value: "null"}
	}
	return k
}

func (s *shelf) Swap(ctx context.Context, name, revision string, value []byte, keep time.Duration) error {
	if err := ctx.Err(); err != nil && s.wrong != "contexts" {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == "one name" {
		name = ""
	}
	is := s.live(name)
	switch {
	case is.revision == revision:
	case s.wrong == "last write wins":
	case s.wrong == "creates over what is there" && revision == "":
	case s.wrong == "losers win in silence":
		return nil
	case s.wrong == "races have no name":
		return errors.New("409 Conflict")
	case s.wrong == "losers write":
		s.values[name] = kept{string(value), is.revision, content{}, is.ends}
		return cas.ErrChanged
	default:
		return cas.ErrChanged
	}
	s.serial++
	next := strconv.Itoa(s.serial)
	ends := time.Now().Add(keep)
	switch s.wrong {
	case "hashes for revisions":
		sum := sha256.Sum256(value)
		next = string(sum[:])
	case "small values":
		value = value[:min(len(value), 1000)]
	case "strings":
		for i, b := range value {
			if b == 0 {
				value = value[:i]
				break
			}
		}
	case "keeps as long as at first":
		if is.revision != "" {
			ends = is.ends
		}
	}
	s.values[name] = kept{string(value), next, content{is.value, is.revision}, ends}
	return nil
}

// A timed shelf has a clock.
type timed struct {
	*shelf
	loads time.Duration
}

func (s *timed) LoadAt(ctx context.Context, name string) ([]byte, string, time.Time, error) {
	s.loads++
	value, revision, err := s.Load(ctx, name)
	switch now := time.Now(); s.wrong {
	case "another revision with the time":
		return value, revision + "0", now, err
	case "no time":
		return value, revision, time.Time{}, err
	case "a time that goes back":
		return value, revision, now.Add(-s.loads), err
	default:
		return value, revision, now, err
	}
}

// Each makes it a store that lists.
func (s *timed) Each(_ context.Context, f func(name string, value []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, k := range s.values {
		switch s.wrong {
		case "lists nothing":
			continue
		case "lists what was before":
			k.value = k.before.value
		}
		if err := f(name, []byte(k.value)); err != nil && s.wrong != "lists on" {
			return err
		}
	}
	return nil
}

func TestAStoreThatIsRightPasses(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		require.NoError(t, castest.TestStore(&shelf{values: map[string]kept{}}, 400<<10))
		require.NoError(t, castest.TestStore(&timed{shelf: &shelf{values: map[string]kept{}}}, 4096))
	})
}

// Each way to be wrong is found by the check that is about it.
func TestStoresThatAreWrongFail(t *testing.T) {
	for wrong, check := range map[string]string{
		"makes up values":            "what was never kept: ",
		"reads what was before":      "what is swapped in is loaded: ",
		"strings":                    "what is swapped in is loaded: ",
		"last write wins":            "a lost race is named: ",
		"creates over what is there": "a lost race is named: ",
		"losers win in silence":      "a lost race is named: ",
		"races have no name":         "a lost race is named: ",
		"losers write":               "a lost race is named: ",
		"hashes for revisions":       "a revision never comes back: ",
		"one name":                   "what is swapped in is loaded: ",
		"small values":               "values of every size: ",
		"contexts":                   "a context that has ended: ",
		"keeps as long as at first":  "how long a value is kept: ",

		"another revision with the time": "the time of a store that has a clock: ",
		"no time":                        "the time of a store that has a clock: ",
		"a time that goes back":          "the time of a store that has a clock: ",

		"lists nothing":         "what a store lists: ",
		"lists what was before": "what a store lists: ",
		"lists on":              "what a store lists: ",
	} {
		kit.RunBubble(t, wrong, func(t *testing.T) {
			require.ErrorContains(t, castest.TestStore(&timed{shelf: &shelf{wrong: wrong, values: map[string]kept{}}}, 4096), check)
		})
	}
}
