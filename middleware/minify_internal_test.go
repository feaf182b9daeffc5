package middleware

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/pow"
)

func TestStrip(t *testing.T) {
	for source, want := range map[string]string{
		"// a comment\n\n  const a = 1; // and one more\n":    "const a=1;",
		"if (a) {\n  b(\"// no comment \\\" ; }\");\n}\n":     "if(a){b(\"// no comment \\\" ; }\")}\n",
		"a = b + +c;\nd = e - -f;\n":                          "a=b+ +c;d=e- -f;",
		"return `a  b ${ c }`;\n":                             "return`a  b ${ c }`;",
		"export class A extends B {\n  static c = true;\n}\n": "export class A extends B{static c=true}\n",
		"a()\nb()\n": "a()\nb()\n",
	} {
		require.Equal(t, want, minify(source, tightScript))
	}
	require.Equal(t, "a b>c,d{e:f g;h:i}\n", minify("/* a\n   b */\na b>c, d {\n  e: f g;\n  h: i;\n}\n", tightStyle))
}

// TestMinifyCanReadOurSources holds the sources to what minify relies on.
func TestMinifyCanReadOurSources(t *testing.T) {
	for name, source := range map[string]string{"tally.js": tallyJS, "solver.js": pow.SolverJS()} {
		for line := range strings.Lines(source) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "//") {
				continue
			}
			code := regexp.MustCompile("\"(\\\\.|[^\"\\\\])*\"|`(\\\\.|[^`\\\\])*`").ReplaceAllString(line, "S")
			code, _, _ = strings.Cut(code, " // ")
			require.NotContains(t, code, `"`, "%s: a string ends on its line: %s", name, line)
			require.NotContains(t, code, "`", "%s: a template ends on its line: %s", name, line)
			require.NotContains(t, code, "'", "%s: strings have double quotes: %s", name, line)
			require.NotContains(t, code, "/*", "%s: comments begin with two slashes: %s", name, line)
			require.NotRegexp(t, `^(for|while) \([^()]*(\([^()]*\)[^()]*)*\);$`, code, "%s: a loop has a body: %s", name, line)
		}
		require.Less(t, len(minify(source, tightScript)), len(source)*3/4, name)
	}
}
