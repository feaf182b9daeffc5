// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/exact/ring"
	"github.com/tallystick/tallystick/proof/exactkit"
)

var secrets = [][]byte{bytes.Repeat([]byte{7}, 32)}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// fleet opens n rings with listeners of their own.
func fleet(t testing.TB, n int) (rings []*ring.Ring, addresses []string) {
	listeners := make([]net.Listener, n)
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners[i], addresses = l, append(addresses, l.Addr().String())
	}
	for i, l := range listeners {
		r, err := ring.Open(ring.Config{Self: addresses[i], Members: addresses, Secrets: secrets, Listener: l, Logger: silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		rings = append(rings, r)
	}
	return rings, addresses
}

// Three processes, whichever is asked, admit L of each key; and each owns some.
func TestThreeCountAsOne(t *testing.T) {
	rings, _ := fleet(t, 3)
	p, admitted := exactkit.PerYear(t, 5), make(map[string]int)
	const keys = 61 // the ports are chance: of 20 keys one of a thousand runs had a process that owned none
	for i := range 20 * keys {
		key := strconv.Itoa(i % keys)
		if exactkit.Take(t, rings[i%3], exact.Call{Key: key, Cost: 1, Policy: p}).Admitted {
			admitted[key]++
		}
	}
	require.Len(t, admitted, keys)
	for key, n := range admitted {
		require.Equal(t, 5, n, key)
	}
	accounts := 0
	for _, r := range rings {
		s := r.Stats()
		require.Positive(t, s.Accounts)
		require.EqualValues(t, s.Accounts, s.Opened)
		require.Positive(t, s.Own)
		require.Positive(t, s.Out)
		require.Positive(t, s.Served)
		require.Zero(t, s.Foreign)
		require.EqualValues(t, 1, s.Changes)
		accounts += s.Accounts
	}
	require.Equal(t, keys, accounts)
}

// Each is answered by whoever has charged it, whichever process asks to have it back.
func TestRefundsFindTheirOwner(t *testing.T) {
	rings, _ := fleet(t, 3)
	p := exactkit.PerYear(t, 1)
	for i := range 12 {
		call := exact.Call{Key: strconv.Itoa(i), Cost: 1, Policy: p}
		v := exactkit.Take(t, rings[i%3], call)
		require.True(t, v.Admitted)
		require.False(t, exactkit.Take(t, rings[(i+1)%3], call).Admitted)
		require.NoError(t, rings[(i+2)%3].Refund(t.Context(), v.Receipt))
		require.ErrorIs(t, rings[i%3].Refund(t.Context(), v.Receipt), exact.ErrNoRefund)
		require.True(t, exactkit.Take(t, rings[i%3], call).Admitted)
	}
}

// What a call costs whose key is this process' own, and one that another has, over loopback.
func BenchmarkTake(b *testing.B) {
	rings, all := fleet(b, 2)
	p := exactkit.PerYear(b, 1<<30)
	for name, owner := range map[string]string{"own": all[0], "out": all[1]} {
		call := ownedBy(b, rings[0], owner, p)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				exactkit.Take(b, rings[0], call)
			}
		})
	}
}
