// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/lab/court"
	"github.com/tallystick/tallystick/proof/lab/house"
)

func TestRing(t *testing.T) {
	var led, dropped court.Count
	r := newRing(&led, &dropped)
	next := func(now, life int64) []string {
		r.next(now, life)
		return slices.Clone(r.secrets)
	}
	first := r.secrets[0]
	require.Equal(t, []string{first}, next(1000, 120), "no client wants another one")
	r.rotate()
	added := next(1001, 120)
	require.Len(t, added, 2)
	require.Equal(t, first, added[0], "the old one signs until all have the new one")
	front := next(1002, 120)
	require.Equal(t, []string{added[1], first}, front)
	require.Equal(t, front, next(1002+120+window-1, 120), "its last token lives")
	require.Equal(t, []string{added[1]}, next(1002+120+window, 120))
	require.Equal(t, []int64{1, 1}, []int64{led.Load(), dropped.Load()})
	for range 3 * ringMost {
		r.rotate()
		require.LessOrEqual(t, len(next(2000, 120)), ringMost, "one has to wait where there is no room")
		next(2000, 120)
	}
	require.Len(t, r.secrets, ringMost)
	require.Len(t, next(1e6, 120), 1)
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
