// SPDX-License-Identifier: Apache-2.0

package plots_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/lab/plots"
)

// wellFormed reads a picture to its end, and returns the text that it shows.
func wellFormed(t *testing.T, svg []byte) (text []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for first := true; ; first = false {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.False(t, first, "an empty picture")
			return text
		}
		require.NoError(t, err)
		if c, ok := token.(xml.CharData); ok {
			text = append(text, string(bytes.TrimSpace(c)))
		}
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, plots.Lines(&b, "yield & bound", "work", "requests", true, []plots.Line{
		{Name: "three <instances>", X: []float64{0, 1, 8}, Y: []float64{300, 600, 2700}},
		{Name: "promised", X: []float64{0, 8}, Y: []float64{300, 2700}, Dashed: true},
	}))
	text := wellFormed(t, b.Bytes())
	for _, shown := range []string{"yield & bound", "work", "requests", "three <instances>", "promised"} {
		require.Contains(t, text, shown)
	}
}

func TestPairs(t *testing.T) {
	pairs := plots.Pairs{Names: [2]string{"admitted", "bound"}, Of: []string{"drop", "fork"}, First: []float64{60, 58}, Second: []float64{60, 61}}
	var b bytes.Buffer
	require.NoError(t, pairs.Write(&b, "attackers", "requests"))
	text := wellFormed(t, b.Bytes())
	for _, shown := range []string{"attackers", "requests", "admitted", "bound", "drop", "fork"} {
		require.Contains(t, text, shown)
	}
	require.Equal(t, []string{"drop", "fork"}, pairs.Of, "what is given stays as it was")
	require.Equal(t, []float64{60, 58}, pairs.First)
	require.Less(t, bytes.Index(b.Bytes(), []byte(">fork<")), bytes.Index(b.Bytes(), []byte(">drop<")), "the last is drawn first, at the bottom")
}
