// SPDX-License-Identifier: Apache-2.0

package pow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
)

// TestMark: two processes with the same secrets mark what they issue, each with a mark of its own.
// Both verify what either has issued, and read the same serial and mark from it.
func TestMark(t *testing.T) {
	var asked [][6]byte
	process := func(mark byte) *pow.Issuer {
		is, err := pow.New(pow.Config{
			Secrets: [][]byte{[]byte("0123456789abcdef0123456789abcdef")},
			Mark: func(serial [6]byte) [3]byte {
				asked = append(asked, serial)
				return [3]byte{mark, serial[0], serial[5]}
			},
		})
		require.NoError(t, err)
		return is
	}
	now := time.Unix(1_790_000_000, 0)
	here, there := process(1), process(2)
	of := pow.Binding{Client: []byte("alice"), Route: "api"}
	for i, issuer := range []*pow.Issuer{here, there, here} {
		c, err := issuer.Issue(now, of, 1000)
		require.NoError(t, err)
		proof, err := pow.Solve(t.Context(), c.Text, pow.SolveOptions{})
		require.NoError(t, err)
		for _, verifier := range []*pow.Issuer{here, there} {
			got, err := verifier.Verify(now, of, proof)
			require.NoError(t, err)
			require.Len(t, asked, i+1, "once for a challenge, never to verify")
			require.Equal(t, asked[i], got.Serial)
			require.Equal(t, [3]byte{byte(1 + i%2), got.Serial[0], got.Serial[5]}, got.Mark)
		}
	}
	require.NotEqual(t, asked[0], asked[2], "serials are random")
}
