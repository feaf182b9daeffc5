// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a request of this cost, by whatever limit.
func at(cost int64) func(uint8) int64 { return func(uint8) int64 { return cost } }

// note has a key be refused at a time, for a wait.
func note(r *Refusals, now time.Time, key Key, cost int64, wait time.Duration) bool {
	_, given := r.Look(now, key, at(cost))
	return r.Note(key, Refusal{Cost: cost, Said: now.UnixMicro(), Until: now.Add(wait).UnixMicro()}, given)
}

// left returns for how long a key is known to be refused.
func left(r *Refusals, now time.Time, key Key, cost int64) time.Duration {
	known, _ := r.Look(now, key, func(uint8) int64 { return cost })
	return known.Left(now)
}

func TestRefusalsAreRememberedUntilTheirTime(t *testing.T) {
	r, now := new(Refusals), breakerStart
	a, b := Key{15: 1}, Key{15: 2} // of one set
	note(r, now, a, 2, 10*time.Second)
	require.Equal(t, 10*time.Second, left(r, now, a, 2))
	require.Equal(t, 4*time.Second, left(r, now.Add(6*time.Second), a, 3))
	require.Zero(t, left(r, now, a, 1), "a cheaper request may pass")
	require.Zero(t, left(r, now, b, 2), "another key")
	require.Zero(t, left(r, now.Add(10*time.Second), a, 2))

	note(r, now, a, 1, 5*time.Second)
	require.Equal(t, 5*time.Second, left(r, now, a, 1))
	note(r, now, a, 1, 20*time.Second)
	require.Equal(t, 20*time.Second, left(r, now, a, 1), "the newest counts, in the place of the older")
	r.Forget(a)
	require.Zero(t, left(r, now, a, 9))
}

// A refusal is fresh for a while, and not before it was said.
func TestRefusalsAreFreshForAWhile(t *testing.T) {
	said := Refusal{Said: breakerStart.UnixMicro()}
	for at, fresh := range map[time.Duration]bool{
		-time.Microsecond: false, 0: true, Believed - time.Microsecond: true, Believed: false, -time.Hour: false, time.Hour: false,
	} {
		require.Equal(t, fresh, said.Fresh(breakerStart.Add(at), Believed), at)
	}
}

// What was given back after the look has the refusal not be noted, and of no other set.
func TestRefusalsAreNotNotedAfterARefund(t *testing.T) {
	r, now := new(Refusals), breakerStart
	a, elsewhere := Key{0: 1}, Key{0: 2}
	said := Refusal{Cost: 1, Said: now.UnixMicro(), Until: now.Add(time.Minute).UnixMicro()}
	_, given := r.Look(now, a, at(1))
	r.Forget(elsewhere)
	require.True(t, r.Note(a, said, given))
	_, given = r.Look(now, a, at(1))
	r.Forget(a)
	require.False(t, r.Note(a, said, given))
	require.Zero(t, left(r, now, a, 1))
	require.True(t, note(r, now, a, 1, time.Minute), "the next")
}

func TestRefusalsForgetTheOneThatEndsFirst(t *testing.T) {
	r, now := new(Refusals), breakerStart
	var keys [refusalWays + 1]Key
	for i := range keys {
		binary.BigEndian.PutUint64(keys[i][8:], uint64(i+1))
		note(r, now, keys[i], 1, time.Duration(10-i)*time.Second)
	}
	require.Zero(t, left(r, now, keys[refusalWays-1], 1), "ended first")
	require.Equal(t, 10*time.Second, left(r, now, keys[0], 1))
	require.Equal(t, time.Duration(10-refusalWays)*time.Second, left(r, now, keys[refusalWays], 1))
}

// One of many asks. The others wait until it knows, or for as long as it may take.
func TestOneOfManyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, key := new(Refusals), Key{1}
		for _, takes := range []time.Duration{time.Millisecond, time.Minute} {
			began := time.Now()
			answered := r.Ask(key, aDeadline)
			require.NotNil(t, answered)
			require.NotNil(t, r.Ask(Key{2}, aDeadline), "of another key")
			for range 9 {
				go func() {
					if r.Ask(key, aDeadline) != nil {
						t.Error("it asks too")
					}
					if waited := time.Since(began); waited != min(takes, aDeadline) {
						t.Error(waited)
					}
				}()
			}
			time.Sleep(takes)
			answered()
			synctest.Wait()
			delete(r.asked, Key{2})
			require.Empty(t, r.asked)
		}
	})
}
