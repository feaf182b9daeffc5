// SPDX-License-Identifier: Apache-2.0

package tallystick_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/internal/printed"
)

// What README.md and docs/ print is run or made by a test. A block or a table without one
// fails here, so that nothing new escapes.

// pages returns the README and all of docs.
func pages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	return append([]string{"README.md"}, pages...)
}

// read takes a page apart.
func read(t *testing.T, page string) ([]printed.Block, []printed.Table) {
	t.Helper()
	blocks, tables, err := printed.Read(page)
	require.NoError(t, err)
	return blocks, tables
}

// runners are the tests that run blocks, by language: those of a shell are run by the
// demo's tests, on every page there is.
var runners = map[string]string{
	"go":      "docs_go_test.go TestGoBlocks",
	"html":    "docs_blocks_test.go TestHTMLBlocks",
	"json":    "docs_blocks_test.go TestJSONBlocks",
	"text":    "docs_wire_test.go TestWireExamples",
	"sh":      "demo/session_test.go TestSessions",
	"console": "demo/session_test.go TestSessions",
}

// holders are the tests that hold tables to the code, by page and first line.
var holders = map[string]string{
	"README.md | client | requests admitted |":                        "docs_tables_test.go TestBoundsAreOne",
	"README.md | package | what it is |":                              "docs_tables_test.go TestPackagesAreNamed",
	"docs/bounds.md | client | requests admitted | tested by | and |": "docs_tables_test.go TestBoundsAreOne",
	"docs/bounds.md | limit; of it the room has | tickets of the script | people | of them let in | let in of the script |":                                                              "middleware/waitingroom_table_test.go TestWaitingRoomTable",
	"docs/browser.md | mode | what a client without a token meets | use it for |":                                                                                                        "docs_tables_test.go TestModesAreNamed",
	"docs/browser.md | what stands in the way | `data-reason` | what becomes of the form |":                                                                                              "docs_element_test.go TestElementTexts",
	"docs/browser.md | attribute | meaning |":                                                                                                                                            "docs_element_test.go TestElementAttributes",
	"docs/clients.md | case | what happens |":                                                                                                                                            "middleware/middlewaretest/clienttest/page_test.go TestPageHasEveryCase",
	"docs/clients.md | verdict | what it says |":                                                                                                                                         "middleware/middlewaretest/clienttest/page_test.go TestPageHasEveryCode",
	"docs/clients.md | code | what the client did |":                                                                                                                                     "middleware/middlewaretest/clienttest/page_test.go TestPageHasEveryCode",
	"docs/clocks.md | limit, load | clocks | under the limit | of them refused | longest Retry-After | over the limit | of them admitted |":                                              "storeless/skew_table_test.go TestSkewTables",
	"docs/clocks.md | limit | clocks | refused | again after Retry-After |":                                                                                                              "storeless/skew_table_test.go TestSkewTables",
	"docs/clocks.md | algorithm | clocks that differ by D, within what is permitted | clocks that are wrong by far |":                                                                    "docs_tables_test.go TestAlgorithmsAreNamed",
	"docs/bounds.md | limits | `PriceMemory` | a pass has | and lives |":                                                                                                                 "docs_tables_test.go TestPassesAreTrue",
	"docs/exact.md | counter | for | what it can lose |":                                                                                                                                 "docs_tables_test.go TestCountersAreNamed",
	"docs/exact.md | fault | requests meanwhile | a payer's p99 grows by | alarm in the log after | well after the cure, and told |":                                                     "middleware/exact_faults_test.go TestFaults",
	"docs/memory.md | each request of the flood from | requests in a window | L = 5: left | refused at once | L = 50: left | refused at once |":                                          "storeless/flood_table_test.go TestFloodTables",
	"docs/memory.md | `MaxClients` | 1 limit | 2 limits | 8 limits |":                                                                                                                    "storeless/flood_table_test.go TestSizesOfThePage",
	"docs/moving.md | 5 a minute | express-rate-limit | Tallystick |":                                                                                                                    "middleware/recipes/moving/express_test.go TestTableOfExpress",
	"docs/moving.md | 5 a minute | httprate | Tallystick |":                                                                                                                              "middleware/recipes/moving/measure_test.go TestTablesOfThePage",
	"docs/moving.md | 5 a minute | tollbooth | Tallystick |":                                                                                                                             "middleware/recipes/moving/measure_test.go TestTablesOfThePage",
	"docs/moving.md | 5 a minute | ulule/limiter | Tallystick |":                                                                                                                         "middleware/recipes/moving/measure_test.go TestTablesOfThePage",
	"docs/moving.md | 5 a minute | go-limiter | Tallystick |":                                                                                                                            "middleware/recipes/moving/measure_test.go TestTablesOfThePage",
	"docs/recipes.md | for | what it takes | recipe |":                                                                                                                                   "docs_recipes_test.go TestRecipesAreNamed",
	"docs/pacing.md | the service permits | write |":                                                                                                                                     "middleware/exact/pace/limits_test.go TestPacedLimitsHold",
	"docs/performance.md | limiter | allowed, 1 client | allowed, a million | refused, a million | heap per client |":                                                                    "internal/peers/page_test.go TestPageNamesEveryLimiter",
	"docs/performance.md | limiter | a request | p10, ns | × httprate | × throttled | mean, ns | × httprate, mean | bytes | allocations |":                                               "internal/peers/cmd/report/page_test.go TestPagesHaveEveryRequest",
	"docs/performance.md | limiter | p10, µs | above `none`, µs | × httprate's | × throttled's | mean, µs | above `none`, mean, µs | × httprate's, mean |":                               "internal/peers/cmd/report/page_test.go TestPagesHaveEveryRequest",
	"docs/performance.md | limiter | clients | processors | on one, ns | on all of them, ns | faster | processor time, × on one | × httprate | × throttled | × httprate, median slice |": "internal/peers/cmd/report/page_test.go TestPagesHaveEveryRequest",
	"README.md | a request | Tallystick | httprate | throttled | × httprate |":                                                                                                           "internal/peers/cmd/report/page_test.go TestPagesHaveEveryRequest",
	"docs/performance.md | what is sent | bytes, HTTP/1.1 | ns | bytes, HTTP/2 | ns |":                                                                                                   "internal/peers/cmd/wire/page_test.go TestPageHasEveryShape",
	"docs/performance.md | counter | keys | calls/s, thousands | ± | p50, µs | p99, µs | client CPU, µs | server CPU, µs | bytes a key |":                                                "internal/peers/cmd/report/counters_test.go TestPageHasEveryCounter",
	"docs/platforms.md | Platform | What your server sees as the peer | `trusted` | Identity, of package `middleware` | What the proxy needs |":                                          "middleware/platforms_test.go TestPlatforms",
	"docs/policyfile.md | key of the file | value | what it is |":                                                                                                                        "middleware/policyfile/page_internal_test.go TestKeysAreOnThePage",
	"docs/policyfile.md | key of a policy | value | what it is |":                                                                                                                        "middleware/policyfile/page_internal_test.go TestKeysAreOnThePage",
	"docs/price.md | policy | a tally admits | an hour for 10 s | 10 min | 10 h | a day for 10 s | 10 min | 10 h |":                                                                      "internal/price/tables_test.go TestPrintedTables",
	"docs/price.md | attacker, patience | 20 a day | 100 a day | 500 a day | 2,000 a day |":                                                                                              "internal/price/tables_test.go TestPrintedTables",
	"docs/price.md | newcomers | attacker | 100 a day | 500 a day | its tallies a day |":                                                                                                 "internal/price/tables_test.go TestPrintedTables",
	"docs/price.md | victims | who wait 10 s | who wait 60 s |":                                                                                                                          "internal/price/tables_test.go TestPrintedTables",
	"docs/price.md | network | tallies in an hour for 10 s | 10 min | 10 h | in a day for 10 s | 10 min | 10 h | requests in a day for 10 h |":                                           "internal/price/tables_test.go TestPrintedTables",
	"docs/price.md | newcomers from | attacker | 500 a day | 2,000 a day | 6,000 a day |":                                                                                                "internal/price/tables_test.go TestPrintedTables",
	"docs/proof.md | clients | limit | N | C | F | states | moves | admitted | bound |":                                                                                                  "internal/model/model_test.go TestWorlds",
	"docs/proof.md | rule | moves | what the model says |":                                                                                                                               "internal/model/mutants_test.go TestBrokenRules",
	"docs/proof.md | window | N | L | C | F | clocks ahead | states |":                                                                                                                   "internal/model/promela_test.go TestPromela",
	"docs/problems.md | reason | why | then |":                                                                                                                                           "docs_tables_test.go TestReasonsAreNamed",
	"docs/remote.md | member of a request | what it says |":                                                                                                                              "middleware/exact/remote/wire_test.go TestEveryMemberIsOnThePage",
	"docs/remote.md | member of an answer | what it says |":                                                                                                                              "middleware/exact/remote/wire_test.go TestEveryMemberIsOnThePage",
	"docs/memory.md | clients at once, of `MaxClients` | IPv4: cells in use | newcomers that begin with a count | of how many | IPv6: cells in use | newcomers that begin with a count | of how many |": "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | client | N = 1 | N = 3 | N = 10 | N = 100 | N = 10, C = 10 |":                                                                                                                 "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | client | N = 1,000 |": "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | work | N = 1 | N = 3 | N = 10 | N = 100 | with `Instances` 1: N = 3 | N = 10 | N = 100 |":                                                                                                                                                 "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | honest clients | requests | admitted | refused under their limit | proofs for each | the dearest | with `Instances` 1: refused | proofs for each |":                                                                                       "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | L | q, N = 10 | requests of 1,000 clients, N = 10 | admitted | refused under their limit | a tally is worth, N = 10 | N = 100 | with `Instances` 1: refused | worth, N = 10 | N = 100 |":                                                  "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | a neighbour pays | requests of 20 holders | admitted | refused under their limit | proofs asked of them | a newcomer then pays | with `Instances` 1: refused | proofs | a newcomer |":                                                     "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | instances | `Instances` | q | requests of 200 clients | admitted | refused under their limit | proofs for each | a tally is worth, of the most instances |":                                                                               "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | client | N = 3 | N = 10 | N = 100 | N = 10, C = 10 |":                                                                                                                                                                                     "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | burst | filled every, N = 10 | requests of 100 clients | admitted | refused, though their tally has room | a tally in a minute, N = 10 | with `Instances` 1: refused | a tally in a minute |":                                             "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | the balancer sends | N | all of L = 20 | half of it | all of L = 100 | half of it | all of L = 1,000 | half of it |":                                                                                                                      "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/simulation.md | instances | requests | admitted | refused under the limit | admitted over it, echoing | most of one that echoes, in a minute | in a day | of one that drops, in a minute | in a day | cells in use | newcomers that begin with a count |": "internal/lab/sim/tables_test.go TestPrintedTables",
	"docs/watching.md | metric | unit | what it counts or measures | by |":                                                                                                                                                                                          "middleware/otel/page_test.go TestEveryMetricIsOnThePage",
	"docs/operations.md | question | how to see it | it is right where |":                                                                                                                                                                                           "docs_golive_test.go TestBeforeYouGoLive",
	"docs/wire.md | field | in | what it carries |":   "docs_wire_test.go TestWireFields",
	"docs/wire.md | `Config.Fields` | what is sent |": "docs_fields_test.go TestChoicesOfFieldsAreTrue",
	"docs/wire.md | claim | what it is |":             "docs_wire_test.go TestWireExamples",
	"docs/wire.md | offset | bytes | what |":          "docs_wire_test.go TestWireExamples",
}

// requireTest checks that "file name" names a test that exists.
func requireTest(t *testing.T, named, why string) {
	t.Helper()
	file, name, _ := strings.Cut(named, " ")
	source, err := os.ReadFile(file)
	require.NoError(t, err, why)
	require.Contains(t, string(source), "\nfunc "+name+"(t *testing.T) {", "%s: %s", why, file)
}

func TestEverythingPrintedHasATest(t *testing.T) {
	seen := map[string]bool{}
	for _, page := range pages(t) {
		blocks, tables := read(t, page)
		for _, b := range blocks {
			if b.From != "" {
				requireTest(t, "docs_recipes_test.go TestBlocksStandInTheirFiles", page)
				continue
			}
			runner, known := runners[b.Language]
			require.True(t, known, "%s:%d: no test runs %q", page, b.Line, b.Language)
			switch b.RunBy {
			case "TestInstall":
				runner = "docs_go_test.go TestInstall"
			case "TestTryIt":
				runner = "demo/session_test.go TestTryIt"
			case "TestChecks":
				runner = "middleware/checks_test.go TestChecks"
			case "TestMistakesOfThePage":
				runner = "middleware/policyfile/page_internal_test.go TestMistakesOfThePage"
			case "TestTheWireIsThatOfItsPage":
				runner = "middleware/exact/remote/wire_test.go TestTheWireIsThatOfItsPage"
			default:
				require.Empty(t, b.RunBy, "%s:%d", page, b.Line)
			}
			require.False(t, b.Language == "text" && page != "docs/wire.md" && b.RunBy == "", "%s:%d: no test reads text there", page, b.Line)
			requireTest(t, runner, page)
		}
		for _, table := range tables {
			key := page + " " + table.Head
			require.Contains(t, holders, key, "no test holds this table")
			require.NotEmpty(t, table.Rows, key)
			requireTest(t, holders[key], key)
			seen[key] = true
		}
	}
	for key := range holders {
		require.True(t, seen[key], "%s is gone", key)
	}
}

// Each page says first for whom it is.
func TestPagesSayForWhomTheyAre(t *testing.T) {
	for _, page := range pages(t)[1:] {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Regexp(t, `^# .+\n\nThis page is for [^.]+\.\n`, string(text), page)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// anchors are the fragments that GitHub gives the headings of a page.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return all
}

// Every link within the repository leads somewhere, to the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range append(pages(t), "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			file, fragment, _ := strings.Cut(l[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			info, err := os.Stat(target)
			require.NoError(t, err, "%s: %s", page, l[1])
			if fragment != "" {
				require.False(t, info.IsDir(), "%s: %s", page, l[1])
				require.True(t, anchors(t, target)[fragment], "%s: %s has no such heading", page, l[1])
			}
		}
	}
}
