// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRuns(t *testing.T) {
	r := Run{Groups: 3, For: time.Minute}
	for _, name := range []string{Ours + "-post", reference, "bare", Fields} {
		require.True(t, r.wants(name))
	}
	r.Rows = regexp.MustCompile("hop")
	require.True(t, r.wants(Ours+"-hop"))
	require.False(t, r.wants(Ours+"-post"))
	require.True(t, r.wants(reference), "it is compared with")

	p := r.plan("K", 1500, 0.5)
	require.Equal(t, []any{"K", 1500, 3, 30 * time.Second}, []any{p.Kind, p.Slice, p.Groups, p.For})
	r.Part = 100
	require.Equal(t, 15, r.plan("K", 1500, 1).Slice)
	require.Equal(t, 1, r.plan("K", 99, 1).Slice)
}

// Rows that are not wanted are left out; the peers' and the scale are not.
func TestRowsAreChosen(t *testing.T) {
	var out strings.Builder
	r := Run{Groups: 1, Part: 100, Rows: regexp.MustCompile("-hop$|-first$"), Out: &out, Progress: io.Discard}
	require.NoError(t, MeasureRequests(t.Context(), r))
	require.NoError(t, MeasureRoundTrips(t.Context(), r))
	var rows []string
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(line, "\t")
		if kind, player, found := strings.Cut(strings.TrimPrefix(name, "Benchmark"), "/player="); found {
			rows = append(rows, kind+" "+player)
		}
	}
	require.Equal(t, []string{
		"Request mac", "Request mac-long", "Request tallystick-hop", "Request httprate", "Request httprate-refused",
		"Request throttled", "Request throttled-refused", "Request bare",
		"First tallystick-first", "First httprate-first", "First throttled-first",
		"RoundTrip none", "RoundTrip fields", "RoundTrip httprate", "RoundTrip throttled", "RoundTrip tallystick-hop",
	}, rows)
}
