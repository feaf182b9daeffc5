// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestLanguage(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                    "en",
		"de":                                  "de",
		"DE":                                  "de",
		"de-CH, en;q=0.9":                     "de",
		"fr-CA;q=0.8, de;q=0.9":               "de",
		"fr ; q=0.8 , de;q=0.7":               "fr",
		"it, fr;q=0.5, en;q=0.3":              "fr",
		"it, ja":                              "en",
		"den, fra":                            "en",
		"*":                                   "en",
		"*, en;q=0.5":                         "de",
		"fr;q=0, *;q=0.1":                     "en",
		"en;q=0, *":                           "de",
		"fr;q=0":                              "en",
		"fr;q=2":                              "fr", // no weight at all
		"de;q=0.5, de-AT;q=0.9, fr;q=0.8":     "de",
		strings.Repeat("it,", 31) + "de":      "de",
		strings.Repeat("it,", 32) + "de":      "en",
		",,;;q=,-,de-":                        "de",
		"\xff, <script>, fr":                  "fr",
		"fr;q=0.001, en;q=0.0, de;q=0.000":    "fr",
		"en-US,en;q=0.9,de;q=0.8,fr;q=0.7":    "en",
		"de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7": "de",
	} {
		require.Equal(t, want, Language([]string{accept}, "en", "de", "fr"), accept)
	}
	require.Equal(t, "fr", Language([]string{"it", "fr"}, "en", "de", "fr"), "lines are one list")
	require.Equal(t, "en", Language(nil, "en", "de", "fr"))
}

func FuzzLanguage(f *testing.F) {
	for _, seed := range []string{"de-CH, en;q=0.9", "*;q=0.1,fr;q=0", ";;;,", "de;q=0.\n"} {
		f.Add(seed)
	}
	offered := []string{"en", "de", "fr"}
	f.Fuzz(func(t *testing.T, accept string) {
		require.True(t, slices.Contains(offered, Language([]string{accept}, offered...)))
	})
}

func TestTrim(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		var s []byte
		for range r.IntN(8) {
			s = append(s, " \t\r\na\v\x00\u00a0"[r.IntN(8)])
		}
		require.Equal(t, strings.Trim(string(s), " \t"), Trim(string(s)), "%q", s)
	}
}

func TestRetryAfterIsNeverNegative(t *testing.T) {
	for _, value := range []string{"9223372036", "9223372037", "18446744073709551615", "18446744073709551616"} {
		require.Equal(t, Forever, RetryAfter(time.Now(), http.Header{"Retry-After": {value}}), value)
	}
}
