// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
)

// TestRates reports how fast the solver of browsers is beside that of Go, in one
// run, and requires that each finds the same answers. Which is how fast depends on
// who else uses the machine; the best of some rounds is told, and no answer comes too late.
func TestRates(t *testing.T) {
	browser := launch(t)
	s := newSite(t)
	s.hasTime("signup")
	b := open(t, browser, s.URL+"/signup")
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{[]byte(strings.Repeat("s", 32))}})
	require.NoError(t, err)
	who := pow.Binding{Client: []byte("somebody")}
	b.module()

	best := map[string]float64{}
	for range 3 {
		issued := time.Now()
		c, err := issuer.Issue(issued, who, 1<<20)
		require.NoError(t, err)
		var proof string
		note := func(name string, solve func() string) {
			start := time.Now()
			got := solve()
			rate := tried(t, got) / time.Since(start).Seconds() / 1e6
			best[name] = max(best[name], rate)
			if proof == "" {
				proof = got
			}
			require.Equal(t, proof, got, name)
		}
		for _, workers := range []int{1, 2} {
			note(fmt.Sprintf("Go, %d", workers), func() string {
				got, err := pow.Solve(context.Background(), c.Text, pow.SolveOptions{Workers: workers})
				require.NoError(t, err)
				return got
			})
			note(fmt.Sprintf("Chromium, %d", workers), func() string {
				return eval[string](b, fmt.Sprintf("solve(%q, { workers: %d })", c.Text, workers))
			})
		}
		note("Chromium, main thread", func() string {
			return eval[string](b, fmt.Sprintf("solve(%q, { workers: 0 })", c.Text))
		})
		_, err = issuer.Verify(issued, who, proof)
		require.NoError(t, err)
	}
	for name, rate := range best {
		t.Logf("%-22s %5.2f million hashes a second", name, rate)
	}
}

// tried counts the candidates that led to a proof.
func tried(t *testing.T, proof string) (sum float64) {
	_, answers, _ := strings.Cut(proof, "~")
	for answer := range strings.SplitSeq(answers, ".") {
		n, err := strconv.Atoi(answer)
		require.NoError(t, err)
		sum += float64(n + 1)
	}
	return sum
}
