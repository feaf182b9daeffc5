// SPDX-License-Identifier: Apache-2.0

package guardedcall

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalsAreRememberedUntilTheirTime(t *testing.T) {
	r, now := new(Refusals), breakerStart
	a, b := Key{15: 1}, Key{15: 2} // of one set
	r.Note(now, a, 2, 10*time.Second)
	require.Equal(t, 10*time.Second, r.Blocked(now, a, 2))
	require.Equal(t, 4*time.Second, r.Blocked(now.Add(6*time.Second), a, 3))
	require.Zero(t, r.Blocked(now, a, 1), "a cheaper request may pass")
	require.Zero(t, r.Blocked(now, b, 2), "another key")
	require.Zero(t, r.Blocked(now.Add(10*time.Second), a, 2))
	require.Zero(t, r.Blocked(now.Add(-time.Hour), a, 2), "a clock that has stepped back")

	r.Note(now, a, 1, 5*time.Second)
	require.Equal(t, 5*time.Second, r.Blocked(now, a, 1))
	r.Note(now, a, 1, 20*time.Second)
	require.Equal(t, 20*time.Second, r.Blocked(now, a, 1), "the newest counts, in the place of the older")
	r.Forget(a)
	require.Zero(t, r.Blocked(now, a, 9))
}

func TestRefusalsForgetTheOneThatEndsFirst(t *testing.T) {
	r, now := new(Refusals), breakerStart
	var keys [refusalWays + 1]Key
	for i := range keys {
		binary.BigEndian.PutUint64(keys[i][8:], uint64(i+1))
		r.Note(now, keys[i], 1, time.Duration(10-i)*time.Second)
	}
	require.Zero(t, r.Blocked(now, keys[refusalWays-1], 1), "ended first")
	require.Equal(t, 10*time.Second, r.Blocked(now, keys[0], 1))
	require.Equal(t, time.Duration(10-refusalWays)*time.Second, r.Blocked(now, keys[refusalWays], 1))
}
