// SPDX-License-Identifier: Apache-2.0

package house

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// No clock moves while a decision is made, and it does when the decision was made.
func TestClocksStandWhileADecisionIsMade(t *testing.T) {
	s := new(Site)
	s.enter(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.False(t, s.gate.TryLock(), "a decision is made")
		s.decided(r.Context(), middleware.Decision{})
		require.True(t, s.gate.TryLock(), "it was made")
		s.gate.Unlock()
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	require.True(t, s.gate.TryLock(), "it leaves once")
	s.gate.Unlock()
	s.gate.RLock()
	moved := make(chan error)
	go func() { moved <- (&door{s}).Advance(7, nil) }()
	require.Eventually(t, func() bool {
		alone := s.gate.TryRLock()
		if alone {
			s.gate.RUnlock()
		}
		return !alone
	}, 5*time.Minute, time.Millisecond, "a clock waits for the decision")
	require.NotEqualValues(t, 7, s.clock().Unix())
	s.gate.RUnlock()
	require.NoError(t, <-moved)
	require.EqualValues(t, 7, s.clock().Unix())
}

// What a server logs is kept.
func TestLinesAreKept(t *testing.T) {
	s, line := new(Site), "http: panic serving 127.0.0.1:1: a test\ngoroutine 1"
	n, err := s.Write([]byte(line))
	require.NoError(t, err)
	require.Len(t, line, n)
	require.Equal(t, []string{"http: panic serving 127.0.0.1:1: a test"}, s.state.Logged)
}

// kept is what the leak of the test holds.
var kept [][]byte

func TestLiveHeapSeesWhatIsKept(t *testing.T) {
	defer func() { kept = nil }()
	s := new(Site)
	before := s.look(true).Heap
	for range 64 {
		kept = append(kept, make([]byte, 1<<20))
	}
	require.InEpsilon(t, 64<<20, s.look(true).Heap-before, 0.1)
}

func TestDecisionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, d := range []Decision{
		{Reason: "within-limits", Own: true},
		{Reason: "over-limit", Room: true, Inherited: 7, TokenErr: "token: expired"},
	} {
		read, ok := Parse(http.Header{DecisionHeader: {d.String()}})
		require.True(t, ok)
		require.Equal(t, d, read)
	}
	for _, text := range []string{"", "over-limit", `{"Reason": 7}`} {
		_, ok := Parse(http.Header{DecisionHeader: {text}})
		require.False(t, ok, text)
	}
}

func TestOutage(t *testing.T) {
	var o Outage
	before := o.Now()
	require.True(t, o.Stood(before))
	o.change()
	during := o.Now()
	require.False(t, o.Stood(before), "it fell meanwhile")
	require.False(t, o.Stood(during))
	o.change()
	require.False(t, o.Stood(before))
	require.False(t, o.Stood(during), "it did not stand at the beginning")
	require.True(t, o.Stood(o.Now()))
}
