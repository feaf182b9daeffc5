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
