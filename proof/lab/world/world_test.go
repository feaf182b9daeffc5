// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

func TestRing(t *testing.T) {
	r := newRing()
	first := r.secrets[0]
	require.Equal(t, []string{first}, r.next(1000, 120), "nobody wants another one")
	r.rotate()
	added := r.next(1001, 120)
	require.Len(t, added, 2)
	require.Equal(t, first, added[0], "the old one signs until all have the new one")
	led := r.next(1002, 120)
	require.Equal(t, []string{added[1], first}, led)
	require.Equal(t, led, r.next(1002+120+window-1, 120), "its last token lives")
	require.Equal(t, []string{added[1]}, r.next(1002+120+window, 120))
	require.Equal(t, []int64{1, 1, 1}, []int64{r.added, r.led, r.dropped})
	for range 3 * ringMost {
		r.rotate()
		require.LessOrEqual(t, len(r.next(2000, 120)), ringMost, "one has to wait where there is no room")
		r.next(2000, 120)
	}
	require.Len(t, r.secrets, ringMost)
	require.Len(t, r.next(1e6, 120), 1)
}

// The clocks of the instances do not come near the end of a window of the exact routes in a cycle.
func TestExactWindowsDoNotEnd(t *testing.T) {
	const day = 24 * 60 * 60
	year := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	for now := year; now.Year() < 2060; now = now.Add(day * time.Second) {
		seconds := int64(court.ExactWindow(now) / time.Second)
		clock := begin(seconds)
		for cycle := range 3 * passEach {
			before, at := clock, clock%seconds
			require.Greater(t, min(at, seconds-at), int64(150*day), now)
			require.EqualValues(t, middle, at%window, now)
			clock += ofCycle * window
			if (cycle+1)%passEach == 0 {
				clock += pass(seconds, clock)
				require.Greater(t, clock-before, 2*seconds, "tokens live for two windows")
				require.Equal(t, halfway(seconds), clock%seconds, now)
			} else {
				clock += leap
			}
		}
	}
}

// The answers of honest clients are judged as they come.
func TestRefusalsAreJudged(t *testing.T) {
	w := newWorld(settings{})
	in, over := house.Decision{Reason: "within-limits", Admitted: true}, house.Decision{Reason: string(middleware.OverLimit)}
	var before [][2]int64 // unjust and lost, when a request comes
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.Verdict()
		unjust, _ := w.Unjust.Read()
		lost, _ := w.NoAnswer.Read()
		status, d := http.StatusTooManyRequests, over
		switch before = append(before, [2]int64{unjust, lost}); len(before) {
		case 2:
			status, d = http.StatusOK, in
		case 4:
			rw.WriteHeader(http.StatusBadGateway)
			return
		case 5:
			w.Away.Change()
			panic(http.ErrAbortHandler)
		}
		rw.Header().Set(house.DecisionHeader, d.String())
		rw.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	w.Open(&house.Cluster{Instances: []*house.Process{{Where: house.Where{Front: netip.MustParseAddrPort(s.Listener.Addr().String())}}}})
	w.quotas[windowed].Change(1)()
	w.metered(windowed, "neither")(turn{calm: true, agree: true, parts: 1})
	require.Equal(t, [][2]int64{{0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 1}, {1, 1}}, before[:6],
		"refused with room; admitted; refused without; no decision; cut while a process was away")
	unjust, first := w.Unjust.Read()
	require.EqualValues(t, 1, unjust)
	require.Contains(t, first, "metered by neither 0 on /window: "+over.String())
	require.EqualValues(t, len(before)-2, w.Decisions.Load())
	require.EqualValues(t, 3, w.Charged(windowed, "10.0.0.1"), "two had no answer")

	w.want(w.friend(windowed, "steady", 0), 0, "")
	unjust, _ = w.Unjust.Read()
	require.EqualValues(t, 2, unjust, "a client that wants something has room")
}

func TestShares(t *testing.T) {
	for n := range 100 {
		sum := 0
		for part := range 3 {
			sum += turn{part: part, parts: 3}.share(n)
		}
		require.Equal(t, n, sum)
	}
}
