// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		var s []byte
		for range r.IntN(8) {
			s = append(s, " \t\r\na\v\x00\u00a0"[r.IntN(8)])
		}
		require.Equal(t, strings.Trim(string(s), " \t"), Trim(string(s)), "%q", s)
	}
}
