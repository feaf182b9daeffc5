// SPDX-License-Identifier: Apache-2.0

package httpfield

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
