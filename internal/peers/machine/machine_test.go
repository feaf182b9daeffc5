// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	s := Describe(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	require.Contains(t, s, runtime.Version())
	require.Contains(t, s, "2026-02-03")
	require.NotContains(t, s, "\n")
}

func TestModelName(t *testing.T) {
	require.Equal(t, "Fast 9000 @ 1 GHz", modelName(strings.NewReader("processor\t: 0\nmodel name\t: Fast 9000 @ 1 GHz\nflags: a\n")))
	require.Equal(t, "unnamed processor", modelName(strings.NewReader("processor : 0\n")))
}
