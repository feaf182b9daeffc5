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

	"github.com/tallystick/tallystick/storeless"
)

// What work is worth in an hour, as docs/bounds.md has it, follows from what the simulation has of a minute, and
// from how long a pass lives.
func TestWorthOfWorkInAnHour(t *testing.T) {
	policy, err := storeless.Compile("api", []storeless.Limit{{Quota: 100, Window: time.Minute}})
	require.NoError(t, err)
	minutes := int(policy.PassLife(time.Hour) / time.Minute)
	flat := func(page string) string {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	bounds, proof := flat("docs/bounds.md"), flat("docs/proof.md")
	for _, row := range tableOf(t, "internal/lab/README.md", "| work | N = 1 | N = 3 | N = 10 |") {
		admitted, _, _ := strings.Cut(row[3], " of ")
		n, err := strconv.Atoi(strings.ReplaceAll(admitted, ",", ""))
		switch row[0] {
		case "0 W":
			require.NoError(t, err)
			require.Equal(t, 60_000, n*minutes)
			require.Contains(t, bounds, "where it has 60,000 if nothing is sold")
		case "1,000 W":
			require.NoError(t, err)
			require.Contains(t, bounds, fmt.Sprintf("%.1f million requests in an hour", float64(n*minutes)/1e6))
			require.Contains(t, proof, "1,000 W yield "+admitted+" requests in a minute")
		}
	}
}
