// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageHasEveryShape: what the page prints is of the shapes that are measured now.
func TestPageHasEveryShape(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	all, err := shapes()
	require.NoError(t, err)
	for _, shape := range all[1 : len(all)-2*len(pads)] {
		require.Contains(t, string(page), "\n| "+shape.Name+" | ")
	}
}
