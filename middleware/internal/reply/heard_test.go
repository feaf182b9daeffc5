// SPDX-License-Identifier: Apache-2.0

package reply

import (
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeardFirst: what is asked for by name changes no answer, whatever else is there.
func TestHeardFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	all := []string{
		"Content-Type", SetCookie, "Location", "Content-Length", "Vary", "Etag", "Date", CacheControl, expiresField, "Ratelimit",
		"Cdn-Cache-Control", surrogate, edge, "x-accel-expires", "Akamai-CACHE-control",
	}
	heard := 0
	for range 20_000 {
		h, want := http.Header{}, false
		for range r.IntN(7) {
			name := all[r.IntN(len(all))]
			h[name] = []string{"a"}
			want = want || storing(name)
		}
		known := 0
		for _, name := range []string{CacheControl, expiresField, "Ratelimit"} {
			if has(h, name) && r.IntN(2) == 0 {
				known++
			}
		}
		require.Equal(t, want, heardFirst(h, len(h)-known), "%v", h)
		if want {
			heard++
		}
	}
	require.Greater(t, heard, 1000)
}
