// SPDX-License-Identifier: Apache-2.0

package span_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/span"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0 s",
		1:                       "1 ns",
		1500:                    "1.5 µs",
		50 * time.Millisecond:   "50 ms",
		1500 * time.Millisecond: "1.5 s",
		time.Minute:             "1 min",
		90 * time.Second:        "1 min 30 s",
		time.Hour:               "1 h",
		24 * time.Hour:          "24 h",
		24*time.Hour + 1:        "24 h 0.000000001 s",
		36 * time.Hour:          "36 h",
		48 * time.Hour:          "2 days",
		167 * time.Hour:         "6 days 23 h",
		28 * 24 * time.Hour:     "28 days",
		366*24*time.Hour + 5:    "366 days 0.000000005 s",
		-time.Minute:            "-1 min",
		math.MinInt64:           "-106751 days 23 h 47 min 16.854775807 s",
	} {
		require.Equal(t, want, span.Text(d))
	}
}
