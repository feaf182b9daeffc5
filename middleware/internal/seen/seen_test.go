// SPDX-License-Identifier: Apache-2.0

package seen

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }

// Each memory notes the n-th value of a client that it knows already, and reports whether it has had
// many.
func TestMany(t *testing.T) {
	for name, row := range map[string]struct {
		many, life int
		fresh      func() func(now time.Time, n int) bool
	}{
		"namers": {manyNamed, day, func() func(time.Time, int) bool {
			var all Namers
			return func(now time.Time, n int) bool { return all.Note(now, address(0), address(n)) }
		}},
		"only": {manyPrograms, day, func() func(time.Time, int) bool {
			var only Only
			return func(now time.Time, n int) bool { return only.Note(now, address(0), fmt.Sprint("program ", n)) }
		}},
		"clients": {manyClients, hour, func() func(time.Time, int) bool {
			var all Clients
			return func(now time.Time, n int) bool { return all.Note(now, Client{Name: fmt.Sprint(n)}) }
		}},
	} {
		now, life := time.Unix(1_800_000_000, 0), time.Duration(row.life)*time.Second
		fill := func() func(time.Time, int) bool {
			note := row.fresh()
			for n := range row.many {
				require.Equal(t, n == row.many-1, note(now, n), "%s: value %d", name, n)
				require.Equal(t, n == row.many-1, note(now, n), "%s: a value again is none more", name)
			}
			return note
		}
		require.True(t, fill()(now, 99), "%s: many stay many, and another takes no room", name)
		for at, many := range map[time.Duration]bool{life - time.Second: true, life: false, time.Second - life: true, -life: false} {
			require.Equal(t, many, fill()(now.Add(at), 0), "%s: %s from the first", name, at)
		}
	}
}

// The first eight peers that name others have a place, until a day is over.
func TestNamersHaveEightPlaces(t *testing.T) {
	var all Namers
	now := time.Unix(1_800_000_000, 0)
	for who := range len(all.all) + 1 {
		for n := range manyNamed {
			require.Equal(t, n == manyNamed-1 && who < len(all.all), all.Note(now, address(who), address(100+n)), "%d", who)
		}
	}
	for n := range manyNamed {
		require.Equal(t, n == manyNamed-1, all.Note(now.Add(24*time.Hour), address(99), address(n)))
	}
}

// An address that is not the only one begins anew, and a request that says nothing of proxies is no program.
func TestOnlyIsOne(t *testing.T) {
	var only Only
	now := time.Unix(1_800_000_000, 0)
	for _, row := range []struct {
		who     int
		program string
		many    bool
	}{{0, "a", false}, {0, "b", false}, {0, "", false}, {1, "c", false}, {0, "d", false}} {
		require.Equal(t, row.many, only.Note(now, address(row.who), row.program))
	}
	for n := range manyPrograms - 1 { // with the one since it came back
		require.Equal(t, n == manyPrograms-2, only.Note(now, address(0), fmt.Sprint(n)))
	}
	require.False(t, only.Note(now, address(0), ""), "nothing is said by such a request")
}
