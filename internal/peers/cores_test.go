// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The real thing, as little of it as there is, and audited: one client of all processors,
// and many.
func TestIdentitiesAreMeasured(t *testing.T) {
	for _, clients := range []int{1, 500} {
		var out strings.Builder
		require.NoError(t, MeasureIdentities(t.Context(), clients, Run{Groups: 1, Part: 100, Out: &out, Progress: io.Discard}))
		for _, l := range sharers() {
			for _, n := range processors() {
				name := "BenchmarkIdentities/player=" + Identity(l.Name, clients)
				if n > 1 {
					name += "-" + strconv.Itoa(n)
				}
				require.Contains(t, out.String(), name+"\t")
			}
		}
	}
}

// Whatever number of goroutines divides the seats, all of them are used alike.
func TestSharingUsesAllSeats(t *testing.T) {
	population := population(t, 12)
	for goroutines := 1; goroutines <= 4; goroutines++ {
		var seats []*seat
		for i := range 4 {
			s := newSeat(Served(), population, get, http.StatusOK)
			s.sit(i*3, (i+1)*3)
			seats = append(seats, s)
		}
		s := &sharing{name: "x", seats: seats}
		s.run(41, goroutines)
		require.NoError(t, s.after(41))
		require.Equal(t, 40, s.sent)
		for _, seat := range seats {
			require.Equal(t, 10, seat.sent)
		}
		require.NoError(t, audit(s.seats, nil, s.sent))
	}
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	s := &sharing{seats: []*seat{newSeat(refusing, population, get, http.StatusOK)}}
	s.run(5, 1)
	require.ErrorContains(t, s.after(5), "5 of 5 answers are wrong")
}

func TestProcessors(t *testing.T) {
	all := processors()
	require.Equal(t, 1, all[0])
	require.Equal(t, runtime.NumCPU(), all[len(all)-1])
	require.IsIncreasing(t, append([]int{0}, all...))
}
