// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemaining(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"none":                     {nil, unknown},
		"empty":                    {[]string{""}, unknown},
		"ours":                     {[]string{`"contact";r=4;t=60`}, 4},
		"nothing left":             {[]string{`"contact";r=0`}, 0},
		"the smallest":             {[]string{`"a";r=9, "b";r=3;t=1,"c";r=7`}, 3},
		"in several lines":         {[]string{`"a";r=9`, `"b";r=3`, ` "c";r=7 `}, 3},
		"parameters in any order":  {[]string{`"a";t=1;pk=:c29tZQ==:;r=5;x;y=?1;z="r=1, \"r\";r=2"`}, 5},
		"the last of two":          {[]string{`"a";r=5;r=6`}, 6},
		"a name like a field":      {[]string{`"a;r=1, \"b\";r=2";r=8`}, 8},
		"spaces where they may be": {[]string{"\"a\"; r=5 ,\t \"b\";  r=6"}, 5},
		"a limit without r":        {[]string{`"a";t=5, "b";r=6`}, 6},
		"no limit with r":          {[]string{`"a";t=5, "b"`}, unknown},
		"leading zero":             {[]string{`"a";r=007`}, 7},
		"as much as there can be":  {[]string{`"a";r=2147483647`}, 2147483647},
		"more":                     {[]string{`"a";r=2147483648`}, unknown},
		"negative":                 {[]string{`"a";r=-1`}, unknown},
		"signed":                   {[]string{`"a";r=+1`}, unknown},
		"decimal":                  {[]string{`"a";r=1.5`}, unknown},
		"string":                   {[]string{`"a";r="1"`}, unknown},
		"no value":                 {[]string{`"a";r`}, unknown},
		"an empty value":           {[]string{`"a";r=;t=1`}, unknown},
		"no key":                   {[]string{`"a";=1;r=1`}, unknown},
		"one bad limit":            {[]string{`"a";r=1, "b";r=x`}, unknown},
		"one bad line":             {[]string{`"a";r=1`, `b`}, unknown},
		"comma at the end":         {[]string{`"a";r=1,`}, unknown},
		"two commas":               {[]string{`"a";r=1,,"b";r=1`}, unknown},
		"no comma":                 {[]string{`"a";r=1 "b";r=1`}, unknown},
		"string without end":       {[]string{`"a;r=1`}, unknown},
		"escape at the end":        {[]string{`"a\`}, unknown},
		"control character":        {[]string{"\"a\x00\";r=1"}, unknown},
		"space before a semicolon": {[]string{`"a" ;r=1`}, unknown},
		"a token for a name":       {[]string{`default;r=1`}, unknown},
		"a Dictionary, as of old":  {[]string{`limit=10, remaining=5, reset=3`}, unknown},
		"a number, as of old":      {[]string{`10`}, unknown},
		"too long":                 {[]string{`"` + strings.Repeat("a", maxRateLimit) + `";r=1`}, unknown},
		"too many":                 {strings.Split(strings.Repeat(`"a";r=1 `, maxRateLimit/7+1), " "), unknown},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, remaining(http.Header{"Ratelimit": c.lines}))
		})
	}
}

func FuzzRemaining(f *testing.F) {
	for _, seed := range []string{`"a";r=9, "b";r=3;t=1`, `"a";t=1;pk=:c29tZQ==:;r=5;x;y=?1;z="r=1, \"r\";r=2"`, `"a\`, `limit=10`} {
		f.Add(seed)
	}
	f.Add(`"a";r=5;x=` + strings.Repeat("y", maxRateLimit/2)) // alone it is read, twice it is too long
	f.Fuzz(func(t *testing.T, line string) {
		r := remaining(http.Header{"Ratelimit": {line}})
		require.GreaterOrEqual(t, r, unknown)
		if r != unknown {
			require.Contains(t, line, "r=")
			if 2*len(line) > maxRateLimit {
				require.Equal(t, unknown, remaining(http.Header{"Ratelimit": {line, line}}))
				return
			}
			require.Equal(t, r, remaining(http.Header{"Ratelimit": {line, line}}))
			if more := line + `, "z";r=1`; len(more) <= maxRateLimit {
				require.Equal(t, min(r, 1), remaining(http.Header{"Ratelimit": {more}}))
			}
		}
	})
}
