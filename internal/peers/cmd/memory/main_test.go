// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	p := hasty()
	p.times, p.looks, p.probes = 1, 1000, 500
	require.NoError(t, write(&b, p))
	text := b.String()
	for _, s := range []string{
		`\| 1 000 \| 10 000 \| 600 \| [56]\d\d \| (0\.9\d+|1) \| 0\.984 \| `,
		`\| 1 000 \| 100 \| 100 000 \| 0 \| \d+ \| 0 \|`, // none lowered, none admitted again
		`\| 8 \| 4 000 \| 1 000 \| 1 000 \|`,
		`## Decisions on several processors`,
	} {
		require.Regexp(t, s, text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			require.GreaterOrEqual(t, strings.Count(line, "|"), 5, line)
		}
	}
}

func TestThoroughReachesTenMillion(t *testing.T) {
	p := thorough()
	least, most := p.loads[0].live, 0
	for _, l := range p.loads {
		least, most = min(least, l.live), max(most, l.live)
	}
	require.LessOrEqual(t, least, 1000)
	require.GreaterOrEqual(t, most, 10_000_000)
	require.GreaterOrEqual(t, p.strangers, 1_000_000)
}

func TestCount(t *testing.T) {
	require.Equal(t, []string{"0", "999", "1 000", "12 345 678"}, []string{count(0), count(999), count(1000), count(12_345_678)})
	require.Equal(t, []string{"0", "< 1e-30", "0.000123"}, []string{probability(0), probability(1e-40), probability(0.0001234)})
}
