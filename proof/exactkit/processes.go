// SPDX-License-Identifier: Apache-2.0

package exactkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/proof/kit"
	"github.com/tallystick/tallystick/storeless"
)

// The environment of a process that a test starts: by what the counter is opened, and what is attempted.
const (
	envWhere    = "TALLYSTICK_COUNTER"
	envAttempts = "TALLYSTICK_ATTEMPTS"
)

// Process is first in a TestMain: in a process that [Attempts] or [Processes] has started it makes the attempts, by
// the counter that open opens, and ends it.
func Process(open func(where string) (exact.Counter, error)) {
	where := os.Getenv(envWhere)
	if where == "" {
		return
	}
	c, err := open(where)
	if err == nil {
		key, quota, _ := strings.Cut(os.Getenv(envAttempts), "\n")
		err = attempt(c, key, quota)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// callersOf is how many goroutines of a process make attempts.
const callersOf = 16

// attempt makes a quarter more attempts than the quota has room for, each again by its ID where the answer is
// lost or the races were, and prints how many were admitted, and how many had no answer.
func attempt(c exact.Counter, key, of string) error {
	quota, err := strconv.ParseInt(of, 10, 64)
	if err != nil {
		return err
	}
	p, err := exact.Compile("api", []storeless.Limit{Yearly(quota)})
	if err != nil {
		return err
	}
	var admitted, lost atomic.Int64
	kit.Together(callersOf, func(w int) {
		for n := int64(w); n < quota*5/4; n += callersOf {
			call := exact.Call{Key: key, Cost: 1, Policy: p, ID: strconv.FormatUint(rand.Uint64(), 36)}
			v, err := c.Take(context.Background(), call)
			for began := time.Now(); err != nil && time.Since(began) < Patient; {
				if !errors.Is(err, exact.ErrContended) {
					time.Sleep(time.Millisecond) // it connects
				}
				ctx, cancel := context.WithTimeout(context.Background(), exact.IDLife/4)
				v, err = c.Take(ctx, call)
				cancel()
			}
			switch {
			case err != nil:
				lost.Add(1)
			case v.Admitted:
				admitted.Add(1)
			}
		}
	})
	fmt.Print(admitted.Load(), " ", lost.Load())
	return nil
}

// Attempts makes a process ready that attempts a quota on a key.
func Attempts(where, key string, quota int64) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), envWhere+"="+where, envAttempts+"="+key+"\n"+strconv.FormatInt(quota, 10))
	c.Stderr = os.Stderr
	return c
}

// Processes has four processes make 5000 attempts at a quota of 1000, for a number of rounds:
// in each exactly 1000 pass and are counted, as c tells. Where the way back loses answers, which lossy counts, exactly
// 1000 are counted; of those, one whose ID more than 128 others have overtaken until its
// process asked again may have been charged twice, and the first charge served no caller. It returns
// how many. lossy may be nil.
func Processes(t *testing.T, times int, where string, c exact.Counter, lossy *Proxy) (twice int64) {
	p, loses := PerYear(t, 1000), lossy != nil
	if !loses {
		lossy = new(Proxy)
	}
	for round := range times {
		key, before := fmt.Sprint(t.Name(), round), lossy.Lost.Load()
		var admitted, unanswered atomic.Int64
		kit.Together(4, func(int) {
			out, err := Attempts(where, key, 1000).Output()
			var a, u int64
			if _, wrong := fmt.Sscan(string(out), &a, &u); err != nil || wrong != nil {
				t.Errorf("%v, %v: %q", err, wrong, out)
			}
			admitted.Add(a)
			unanswered.Add(u)
		})
		lost := lossy.Lost.Load() - before
		require.Equal(t, loses, lost > 0, "answers are lost")
		require.Zero(t, unanswered.Load(), "every answer comes in the end")
		again := 1000 - admitted.Load()
		require.GreaterOrEqual(t, again, int64(0))
		require.LessOrEqual(t, again, callersOf*lost, "none, where no answer is lost")
		twice += again
		require.Zero(t, Left(t, c, exact.Call{Key: key, Cost: 1, Policy: p}))
	}
	t.Logf("%d answers were lost", lossy.Lost.Load())
	return twice
}

// AcrossProcesses runs [Processes] directly, and where the way back loses some answers. where
// names the counter at an address.
func AcrossProcesses(t *testing.T, times, loses int, addr string, where func(addr string) string, c exact.Counter) (twice int64) {
	t.Run("directly", func(t *testing.T) { Processes(t, times, where(addr), c, nil) })
	t.Run("with lost answers", func(t *testing.T) {
		lossy := StartProxy(t, addr)
		lossy.Set(Ways{LoseEvery: loses})
		twice = Processes(t, times, where(lossy.Addr().String()), c, lossy)
	})
	return twice
}
