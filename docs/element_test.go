// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func source(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestElementTexts: every language has all texts of the element, in one order, and the page
// names each of them, the reasons in their table.
func TestElementTexts(t *testing.T) {
	script := source(t, "middleware/internal/assets/texts.js")
	var languages [][]string
	for _, part := range regexp.MustCompile(`(?m)^  [a-z]{2}: \{$`).Split(script, -1)[1:] {
		var keys []string
		for _, found := range regexp.MustCompile(`(?m)^    (\w+): "`).FindAllStringSubmatch(part, -1) {
			keys = append(keys, found[1])
		}
		languages = append(languages, keys)
	}
	require.Len(t, languages, 10)
	for _, keys := range languages {
		require.Equal(t, languages[0], keys)
	}
	reasons := map[string]bool{}
	for _, row := range tableOf(t, "docs/forms.md", "| what stands in the way |") {
		reason := strings.Trim(row[1], "`")
		require.Contains(t, languages[0], reason)
		require.Contains(t, source(t, "middleware/internal/assets/tally.js"), `"`+reason+`"`)
		reasons[reason] = true
	}
	page := source(t, "docs/forms.md")
	for _, key := range languages[0] {
		require.True(t, reasons[key] || strings.Contains(page, "`text-"+key+"`"), key)
	}
}

// TestOneChoiceOfLanguages: the element speaks what the pages around it do, which take its language
// from them.
func TestOneChoiceOfLanguages(t *testing.T) {
	names := func(pattern, file string) (all []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(source(t, file), -1) {
			all = append(all, found[1])
		}
		return all
	}
	pages := names(`(?m)^\t\tlanguage: "([a-z]+)",$`, "middleware/internal/page/languages.go")
	require.Len(t, pages, 10)
	require.Equal(t, pages, names(`(?m)^  ([a-z]{2}): \{$`, "middleware/internal/assets/texts.js"))
}

// TestElementAttributes: the page names each attribute that the element reads.
func TestElementAttributes(t *testing.T) {
	want := []string{"disabled, hidden", "text-…"} // by :disabled, by the browser, and by name
	for _, found := range regexp.MustCompile(`this\.getAttribute\("([a-z-]+)"\)`).FindAllStringSubmatch(source(t, "middleware/internal/assets/tally.js"), -1) {
		want = append(want, found[1])
	}
	require.ElementsMatch(t, want, first(tableOf(t, "docs/forms.md", "| attribute |")))
}
