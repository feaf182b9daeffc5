// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/limiter"
	"github.com/tallystick/tallystick/storeless"
)

// What work is worth in an hour, as docs/bounds.md has it, follows from what the simulation has of a minute, and
// from how long a pass lives.
func TestWorthOfWorkInAnHour(t *testing.T) {
	policy, err := limiter.Compile("api", []storeless.Limit{{Quota: 100, Window: time.Minute}})
	require.NoError(t, err)
	minutes := int(policy.PassLife(time.Hour) / time.Minute)
	rows := tableOf(t, "proof/lab/README.md", "| work | N = 1 | N = 3 | N = 10 |")
	bounds, err := os.ReadFile("docs/bounds.md")
	require.NoError(t, err)
	proof, err := os.ReadFile("docs/proof.md")
	require.NoError(t, err)
	for _, row := range rows {
		admitted, _, _ := strings.Cut(row[3], " of ")
		n, err := strconv.Atoi(strings.ReplaceAll(admitted, ",", ""))
		switch row[0] {
		case "0 W":
			require.NoError(t, err)
			require.Equal(t, 60_000, n*minutes)
			require.Contains(t, string(bounds), "60,000")
		case "1,000 W":
			require.NoError(t, err)
			require.Contains(t, string(bounds), fmt.Sprintf("%.1f million", float64(n*minutes)/1e6))
			require.Contains(t, string(proof), admitted)
		}
	}
}

// The figures of bought requests that docs/bounds.md tells are those of the tables beside the tools.
func TestTellingRowsAreTrue(t *testing.T) {
	text, err := os.ReadFile("docs/bounds.md")
	require.NoError(t, err)
	words := strings.Join(strings.Fields(string(text)), " ")
	bought := tableOf(t, "proof/lab/price/README.md", "| a program computes for |")
	require.Contains(t, words, fmt.Sprintf("gets in %s times a day for nothing, %s times for a second of a core", bought[0][3], bought[1][3]))
	require.Contains(t, words, fmt.Sprintf("and %s times for an hour of it", bought[3][3]))
}
