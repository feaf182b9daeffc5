package middleware

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRefusalsAreRememberedUntilTheirTime(t *testing.T) {
	r, now := new(spentKeys), breakerStart
	a, b := counterKey{15: 1}, counterKey{15: 2} // of one set
	r.note(a, 2, now, 10*time.Second)
	require.Equal(t, 10*time.Second, r.blocked(a, 2, now))
	require.Equal(t, 4*time.Second, r.blocked(a, 3, now.Add(6*time.Second)))
	require.Zero(t, r.blocked(a, 1, now), "a cheaper request may pass")
	require.Zero(t, r.blocked(b, 2, now), "another key")
	require.Zero(t, r.blocked(a, 2, now.Add(10*time.Second)))
	require.Zero(t, r.blocked(a, 2, now.Add(-time.Hour)), "a clock that has stepped back")

	r.note(a, 1, now, 5*time.Second)
	require.Equal(t, 5*time.Second, r.blocked(a, 1, now))
	r.forget(a)
	require.Zero(t, r.blocked(a, 9, now))
}

func TestRefusalsForgetTheOneThatEndsFirst(t *testing.T) {
	r, now := new(spentKeys), breakerStart
	var keys [spentWays + 1]counterKey
	for i := range keys {
		binary.BigEndian.PutUint64(keys[i][8:], uint64(i+1))
		r.note(keys[i], 1, now, time.Duration(10-i)*time.Second)
	}
	require.Zero(t, r.blocked(keys[spentWays-1], 1, now), "ended first")
	require.Equal(t, 10*time.Second, r.blocked(keys[0], 1, now))
	require.Equal(t, time.Duration(10-spentWays)*time.Second, r.blocked(keys[spentWays], 1, now))
}
