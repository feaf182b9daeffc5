// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

const elementPage = "docs/forms.md"

// fromNode returns what a module of JavaScript prints as JSON, which is run by Node from the root and has the
// text of a file of the element in the constant source.
func fromNode[T any](t *testing.T, file, module string) (said T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		kit.Unable(t, "there is no node: %v", err)
	}
	require.NoError(t, noticed())
	source := kit.Must(os.Open("middleware/internal/assets/" + file))(t)
	defer source.Close()
	cmd := exec.Command("node", "--input-type=module", "--eval",
		`import { readFileSync } from "node:fs"; const source = readFileSync(0, "utf8");`+module)
	cmd.Stdin, cmd.Stderr = source, os.Stderr
	text := kit.Must(cmd.Output())(t)
	require.NoError(t, json.Unmarshal(text, &said))
	return said
}

// elementTexts returns the texts of the element by language and name.
func elementTexts(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := fromNode[map[string]map[string]string](t, "texts.js", `
		const { TEXTS } = await import("data:text/javascript," + encodeURIComponent(source + "export { TEXTS };"));
		console.log(JSON.stringify(TEXTS));`)
	files := kit.Must(filepath.Glob("middleware/internal/assets/texts-*.js"))(t)
	for _, file := range files {
		language := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "texts-"), ".js")
		all[language] = fromNode[map[string]string](t, filepath.Base(file), `
			const { default: texts } = await import("data:text/javascript," + encodeURIComponent(source));
			console.log(JSON.stringify(texts));`)
	}
	return all
}

// TestElementTexts: the page names each text of the element, the reasons in their table.
func TestElementTexts(t *testing.T) {
	english := elementTexts(t)["en"]
	page := kit.Must(os.ReadFile(elementPage))(t)
	reasons := map[string]bool{}
	for _, row := range tableOf(t, elementPage, "| what stands in the way |") {
		reason := plain(row[1])
		require.NotEmpty(t, english[reason], "a reason without a text: %s", reason)
		reasons[reason] = true
	}
	for name := range english {
		require.True(t, reasons[name] || strings.Contains(string(page), "`text-"+name+"`"), name)
	}
}

// TestOneChoiceOfLanguages: the element speaks each language that the pages around it speak, all of it, and
// no other.
func TestOneChoiceOfLanguages(t *testing.T) {
	all := elementTexts(t)
	for language, of := range all {
		require.Equal(t, slices.Sorted(maps.Keys(all["en"])), slices.Sorted(maps.Keys(of)), language)
	}
	h := signup(t).Handler(http.NotFoundHandler())
	var pages []string
	for first := 'a'; first <= 'z'; first++ {
		for second := 'a'; second <= 'z'; second++ {
			language := string(first) + string(second)
			r, w := httptest.NewRequest(http.MethodPost, "/signup", nil), httptest.NewRecorder()
			r.Header.Set("Accept", "text/html")
			r.Header.Set("Accept-Language", language)
			h.ServeHTTP(w, r)
			body := kit.Must(io.ReadAll(w.Body))(t)
			if strings.Contains(string(body), `<html lang="`+language+`"`) {
				pages = append(pages, language)
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(all)), pages)
}

// TestElementAttributes: the page names each attribute that the element reads, and each property beside it.
func TestElementAttributes(t *testing.T) {
	const tools = "internal/npm/testdata/tools/node_modules/rolldown"
	if _, err := os.Stat(tools); err != nil {
		kit.Unable(t, "there is no parser of JavaScript; .ci/need installs it: %v", err)
	}
	read := fromNode[struct{ Names, Properties []string }](t, "tally.js", `
		import { parseAst } from "./`+tools+`/dist/parse-ast-index.mjs";
		const names = [], properties = [];
		(function visit(node) {
			if (!node || typeof node !== "object") return;
			const { type, callee, arguments: args } = node;
			if (type === "CallExpression" && callee.object?.type === "ThisExpression" && callee.property.name === "getAttribute")
				names.push(args[0].value ?? args[0].quasis[0].value.raw + "…");
			if (type === "MethodDefinition" && node.kind === "set") properties.push(node.key.name);
			Object.values(node).forEach(visit);
		})(parseAst(source));
		console.log(JSON.stringify({ names, properties }));`)
	rows := tableOf(t, elementPage, "| attribute |")
	require.ElementsMatch(t, append(read.Names, "disabled", "hidden"), first(rows)) // by a selector, and by the browser
	var properties []string
	for _, row := range rows {
		properties = append(properties, plain(row[1]))
	}
	require.ElementsMatch(t, append(read.Properties, "hidden", ""), properties) // the browser's, and the texts have none
}
