// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDottedAgreesWithNetip: what we take, package netip takes for the same address; what
// net/http writes of an IPv4 connection, we take.
func TestDottedAgreesWithNetip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	agree := func(s string) bool {
		addr, ok := dotted(s)
		if ok {
			want, err := netip.ParseAddrPort(s)
			require.NoError(t, err, "%q", s)
			four := want.Addr().As4()
			require.Equal(t, binary.BigEndian.Uint32(four[:]), addr, "%q", s)
		}
		return ok
	}
	for range 20_000 {
		want := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32() >> r.IntN(8)), byte(r.Uint32()), byte(r.Uint32())}), uint16(r.Uint32()))
		s := want.String()
		require.True(t, agree(s), "%q", s)
		// One byte of it is another, is missing, or is there once more.
		i, c := r.IntN(len(s)), "0123456789.:[]%-+ \x00\xff"[r.IntN(20)]
		agree(s[:i] + string(c) + s[i+1:])
		agree(s[:i] + s[i+1:])
		agree(s[:i] + s[i:i+1] + s[i:])
	}
	for _, s := range []string{
		"", ".", ":", "1.2.3.4", "1.2.3.4:", "1.2.3:80", "1.2.3.4.5:80", "01.2.3.4:80", "1.2.3.00:80", "256.2.3.4:80", "1.2.3.4:65536",
		"1.2.3.4:99999", "1.2.3.4:080808", "1.2.3.4:-1", "1.2.3.4:8o", "1:2.3.4:80", "1.2.3.4:80:80", "[::1]:80", "::ffff:1.2.3.4", "1.2..4:80",
		"1.2.3.4 :80", " 1.2.3.4:80", "4294967297.2.3.4:80",
	} {
		require.False(t, agree(s), "%q", s)
	}
	for _, port := range []int{0, 1, 80, 9999, 10000, 65535} {
		require.True(t, agree(fmt.Sprintf("203.0.113.255:%d", port)))
	}
}
