// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Package middleware tests which of the two is preferred, by requests.
func TestAcceptIsReadSoFarAndNoFurther(t *testing.T) {
	require.True(t, PrefersHTML([]string{strings.Repeat("text/plain,", maxRanges-1) + "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat("text/plain,", maxRanges) + "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat(",", 900<<10) + "text/html"}))
	require.False(t, PrefersHTML(append(slices.Repeat([]string{"text/plain"}, maxRanges), "text/html")), "lines are one list")
	require.True(t, PrefersHTML([]string{strings.Repeat(";", maxRangeBytes-len("text/html")), "text/html"}))
	require.False(t, PrefersHTML([]string{strings.Repeat(";", maxRangeBytes-len("text/html")+1), "text/html"}))
}

func TestJSONWinsATie(t *testing.T) {
	require.True(t, PrefersHTML([]string{"text/html, application/json;q=0.999"}))
	for _, line := range []string{"", "*/*", "text/html, application/json", "text/html;q=0.5, application/*;q=0.5"} {
		require.False(t, PrefersHTML([]string{line}), line)
	}
}
