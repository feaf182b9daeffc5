// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is simulated is what users get: the defaults are those of the middleware.
func TestDefaultsAreTheMiddlewares(t *testing.T) {
	for file, lines := range map[string][]string{
		"pow/price.go":                   {"DefaultWork = 1 << 18\n"},
		"middleware/compilechallenge.go": {"c.Work = pow.DefaultWork\n", fmt.Sprintf("c.Crowd = %d\n", expected), "c.PriceMemory = time.Hour\n"},
		"middleware/identify.go":         {"portsInBlock = 1 << 12\n", "uint8(1 + peer.Port()/portsInBlock)\n"},
		"middleware/sale.go":             {fmt.Sprintf("\tcrowds56 = %d\n\tcrowds48 = %d\n", crowds56, crowds48)},
	} {
		source, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		for _, line := range lines {
			require.Contains(t, string(source), line, file)
		}
	}
	require.Equal(t, portBlocks, 1<<16>>12)
	require.Equal(t, 1<<18, work)
	require.Equal(t, time.Hour, priceMemory)
}
