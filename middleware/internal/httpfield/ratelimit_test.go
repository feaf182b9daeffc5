// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateLimits(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  []Limit
	}{
		"none":                     {nil, nil},
		"empty":                    {[]string{""}, nil},
		"ours":                     {[]string{`"contact";r=4;t=60`}, []Limit{{4, time.Minute}}},
		"nothing left":             {[]string{`"contact";r=0`}, []Limit{{0, 0}}},
		"a List":                   {[]string{`"a";r=9, "b";r=3;t=1,"c";r=7`}, []Limit{{9, 0}, {3, time.Second}, {7, 0}}},
		"in several lines":         {[]string{`"a";r=9`, `"b";r=3`, ` "c";r=7 `}, []Limit{{9, 0}, {3, 0}, {7, 0}}},
		"parameters in any order":  {[]string{`"a";t=1;pk=:c29tZQ==:;r=5;x;y=?1;z="r=1, \"r\";r=2"`}, []Limit{{5, time.Second}}},
		"the last of two":          {[]string{`"a";r=5;r=6`}, []Limit{{6, 0}}},
		"a name like a field":      {[]string{`"a;r=1, \"b\";r=2";r=8`}, []Limit{{8, 0}}},
		"spaces where they may be": {[]string{"\"a\"; r=5 ,\t \"b\";  r=6"}, []Limit{{5, 0}, {6, 0}}},
		"a limit without r":        {[]string{`"a";t=5, "b";r=6`}, []Limit{{6, 0}}},
		"no limit with r":          {[]string{`"a";t=5, "b"`}, nil},
		"leading zero":             {[]string{`"a";r=007`}, []Limit{{7, 0}}},
		"as much as there can be":  {[]string{`"a";r=2147483647`}, []Limit{{2147483647, 0}}},
		"more":                     {[]string{`"a";r=2147483648`}, nil},
		"negative":                 {[]string{`"a";r=-1`}, nil},
		"signed":                   {[]string{`"a";r=+1`}, nil},
		"decimal":                  {[]string{`"a";r=1.5`}, nil},
		"string":                   {[]string{`"a";r="1"`}, nil},
		"no value":                 {[]string{`"a";r`}, nil},
		"an empty value":           {[]string{`"a";r=;t=1`}, nil},
		"no key":                   {[]string{`"a";=1;r=1`}, nil},
		"one bad limit":            {[]string{`"a";r=1, "b";r=x`}, nil},
		"one bad line":             {[]string{`"a";r=1`, `b`}, nil},
		"comma at the end":         {[]string{`"a";r=1,`}, nil},
		"two commas":               {[]string{`"a";r=1,,"b";r=1`}, nil},
		"no comma":                 {[]string{`"a";r=1 "b";r=1`}, nil},
		"string without end":       {[]string{`"a;r=1`}, nil},
		"escape at the end":        {[]string{`"a\`}, nil},
		"control character":        {[]string{"\"a\x00\";r=1"}, nil},
		"space before a semicolon": {[]string{`"a" ;r=1`}, nil},
		"a token for a name":       {[]string{`default;r=1`}, nil},
		"a Dictionary, as of old":  {[]string{`limit=10, remaining=5, reset=3`}, nil},
		"a number, as of old":      {[]string{`10`}, nil},
		"too long":                 {[]string{`"` + strings.Repeat("a", maxRateLimit) + `";r=1`}, nil},
		"too many":                 {strings.Split(strings.Repeat(`"a";r=1 `, maxRateLimit/7+1), " "), nil},
		"no time":                  {[]string{`"a";r=0;t=x`}, []Limit{{0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, RateLimits(http.Header{"Ratelimit": c.lines}))
		})
	}
}

func FuzzRateLimits(f *testing.F) {
	for _, seed := range []string{`"a";r=9, "b";r=3;t=1`, `"a";t=1;pk=:c29tZQ==:;r=5;x;y=?1;z="r=1, \"r\";r=2"`, `"a\`, `limit=10`} {
		f.Add(seed)
	}
	f.Add(`"a";r=5;x=` + strings.Repeat("y", maxRateLimit/2)) // alone it is read, twice it is too long
	f.Fuzz(func(t *testing.T, line string) {
		limits := RateLimits(http.Header{"Ratelimit": {line}})
		for _, l := range limits {
			require.Contains(t, line, "r=")
			require.GreaterOrEqual(t, l.Remaining, 0)
			require.GreaterOrEqual(t, l.Reset, time.Duration(0))
		}
		if limits == nil {
			return
		}
		twice := RateLimits(http.Header{"Ratelimit": {line, line}})
		if 2*len(line) > maxRateLimit {
			require.Nil(t, twice)
			return
		}
		require.Equal(t, append(limits, limits...), twice)
		if list := line + "," + line; len(list) <= maxRateLimit {
			require.Equal(t, twice, RateLimits(http.Header{"Ratelimit": {list}}))
		}
	})
}
