// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware/policyfile"
	"github.com/tallystick/tallystick/proof/kit"
)

// What SIGHUP does: the secrets and the policies are read again.

const (
	secretA = "the-first-secret-of-32-characters"
	secretB = "another-secret-of-as-many-letters"
)

// examplePolicies is the file that comes with the demo, with changes.
func examplePolicies(t *testing.T, oldnew ...string) string {
	t.Helper()
	text := kit.Must(os.ReadFile("policies.json"))(t)
	return kit.Replace(t, string(text), oldnew...)
}

const contactLimits = `[{"quota": 5, "window": "1m"}, {"quota": 50, "window": "24h"}]`

// filesOf writes the secrets of the example, and policies, and returns where these are.
func filesOf(t *testing.T) (policies string, write func(name, text string)) {
	dir := t.TempDir()
	write = func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("secrets", secretA)
	write("policies.json", examplePolicies(t))
	return filepath.Join(dir, "policies.json"), write
}

func TestExamplePoliciesAreTheProgramsOwn(t *testing.T) {
	o := standard(3)
	o.policyFile, _ = filesOf(t)
	file, own := startWith(t, o), start(t, 3)
	ask := map[string]func(*client) answer{
		"contact":    func(c *client) answer { return c.contact() },
		"newsletter": func(c *client) answer { return c.newsletter() },
		"signup":     func(c *client) answer { return c.pay(c.signup()) },
		"feedback":   func(c *client) answer { return c.pay(c.feedback()) },
		"api":        func(c *client) answer { return c.do("GET", "/api/quote", "", bearer("demo-vendor/maps")) },
	}
	for name, send := range ask {
		a, b := send(file.client(t)), send(own.client(t))
		require.Equal(t, 200, a.StatusCode, "%s: %s", name, a.body)
		require.NotEmpty(t, a.Header.Get("RateLimit-Policy"), name)
		require.Equal(t, b.Header.Get("RateLimit-Policy"), a.Header.Get("RateLimit-Policy"), name)
	}
}

// A process is the demo as an operator runs it, by a clock that stands still: no window may
// end while counts are compared.
type process struct {
	*server
	t    *testing.T
	cmd  *exec.Cmd
	logs *bufio.Reader
}

func startProcess(t *testing.T, flags ...string) *process {
	t.Helper()
	program := kit.Build(t, ".", "o.now = time.Now\n", "o.now = func() time.Time { return time.Unix(1_800_000_000, 0) }\n")
	p := &process{t: t, server: &server{}, cmd: exec.Command(program, append([]string{"-addr", "127.0.0.1:0", "-counter", "memory"}, flags...)...)}
	stdout := kit.Must(p.cmd.StdoutPipe())(t)
	stderr := kit.Must(p.cmd.StderrPipe())(t)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.listens(t, stdout)
	p.logs = bufio.NewReader(stderr)
	return p
}

// hangUp sends the signal, and returns the first lines that say what came of it.
func (p *process) hangUp(lines int) (said []string) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGHUP))
	for len(said) < lines {
		line, err := p.logs.ReadString('\n')
		require.NoError(p.t, err)
		if strings.Contains(line, "reload") && !strings.Contains(line, " code=") { // that is the library's, of each instance
			said = append(said, strings.TrimSpace(line))
		}
	}
	return said
}

// TestHangup: the signal has the process read its files again, whatever is wrong with them. What is wrong is told in
// a line each, and nothing changes; else all instances go by the new quotas, and keep their counts.
func TestHangup(t *testing.T) {
	policies, write := filesOf(t)
	p := startProcess(t, "-policy-file", policies)
	c := p.client(t)
	for range 3 {
		require.Equal(t, 200, c.echo().StatusCode)
	}
	write("secrets", secretB+"\nhush\n")
	write("policies.json", examplePolicies(t, contactLimits, `[{"quota": 0, "window": "1m"}, {"quota": 50, "window": "24x"}]`))
	said := p.hangUp(3)
	for _, line := range said {
		require.Contains(t, line, `level=ERROR msg="not reloaded: nothing has changed"`)
		require.NotContains(t, line, "hush")
	}
	for _, what := range []string{"policies.contact.limits[0].quota", "policies.contact.limits[1].window", "secrets"} {
		require.Contains(t, strings.Join(said, "\n"), what)
	}
	require.Contains(t, c.echo().Header.Get("RateLimit"), `"contact";r=1;`)
	write("secrets", secretA)
	write("policies.json", examplePolicies(t, contactLimits, `[{"quota": 8, "window": "1m"}, {"quota": 50, "window": "24h"}]`))
	require.Contains(t, p.hangUp(1)[0], "level=INFO msg=reloaded")
	require.Equal(t, 4, admitted(t, 9, func() answer { return c.echo() }), "8 less the 4 that were counted")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait())
	require.Contains(t, startProcess(t).hangUp(1)[0], "nothing to reload")
}

const schemaFile = "../docs/policyfile.schema.json"

// A validator that is not ours takes a file by the published schema if and only if policyfile
// does. The files are drawn from the schema, with mistakes of every kind in some places: each
// rule of the schema is at its bound, one before and one after.
func TestSchemaAndReaderAgree(t *testing.T) {
	text := kit.Must(os.ReadFile(schemaFile))(t)
	document := kit.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("policyfile", document))
	schema := kit.Must(compiler.Compile("policyfile"))(t)

	g := generator{rand.New(rand.NewPCG(18, 1)), document.(map[string]any), 0, map[string]*regexp.Regexp{}}
	accepted, refused := 0, 0
	for i := range 6000 {
		g.mistakes = []int{0, 300, 60, 15}[i%4]
		file := kit.Must(json.Marshal(g.value(g.root)))(t)
		read := kit.Must(jsonschema.UnmarshalJSON(bytes.NewReader(file)))(t)
		bySchema, byUs := schema.Validate(read), policyfile.Check("f", file)
		require.Equal(t, bySchema == nil, byUs == nil, "%s\nschema: %v\npolicyfile: %v", file, bySchema, byUs)
		if byUs == nil {
			accepted++
		} else {
			refused++
		}
		require.True(t, g.mistakes > 0 || byUs == nil, "%s\n%v", file, byUs)
	}
	require.Greater(t, accepted, 2000)
	require.Greater(t, refused, 2000)
}

// A generator draws values that a schema permits, and sometimes a mistake.
type generator struct {
	*rand.Rand
	root     map[string]any
	mistakes int // one value in this many is a mistake; 0: none

	compiled map[string]*regexp.Regexp
}

// strays are values of every kind; strings of every form are among them.
var strays = []any{
	nil, true, 0, 1, -1, 1.5, 1e30, json.Number("1.0"), json.Number("2e1"), json.Number("10e-1"), json.Number("1e-1"), "", " ", "a", "A", "-", "peer", "header", "off", "fail-open", "month", "Europe/Berlin", "1s", "1m", "24h", "1h30m",
	"01m1s", "1d", "1.5h", "-1s", "1m1h", "ms", "1ms", "999999h", "sliding-window", "TALLYSTICK_SECRETS", "9A", "/run/secrets/tally", "X-Real-IP", "10.0.0.0/8", "2001:db8::/32", "10.0.0.0",
	"/", "/tally/contact/", "/tally", "//", "tally/", "/t lly/", "contact", "Contact", strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 48), strings.Repeat("a", 49),
	"a\n", "\u0000", "é", "\u2028", []any{}, []any{"a"}, map[string]any{}, map[string]any{"a": 1},
}

func (g *generator) wrong() bool { return g.mistakes > 0 && g.IntN(g.mistakes) == 0 }

func (g *generator) value(schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		schema = g.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if g.wrong() {
		return strays[g.IntN(len(strays))]
	}
	if words, ok := schema["enum"].([]any); ok {
		return words[g.IntN(len(words))]
	}
	switch schema["type"] {
	case "boolean":
		return g.IntN(2) == 0
	case "integer":
		return g.number(schema, "minimum", "maximum")
	case "string":
		return g.text(schema)
	case "array":
		list := []any{}
		for range g.count(schema, "minItems", "maxItems") {
			list = append(list, g.value(schema["items"].(map[string]any)))
		}
		return list
	}
	object := map[string]any{}
	if names, ok := schema["propertyNames"].(map[string]any); ok {
		for range g.count(schema, "minProperties", "maxProperties") {
			object[g.text(names)] = g.value(schema["additionalProperties"].(map[string]any))
		}
		return object
	}
	properties := schema["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	required, _ := schema["required"].([]any)
	if ways, ok := schema["anyOf"].([]any); ok {
		required = slices.Concat(required, ways[g.IntN(len(ways))].(map[string]any)["required"].([]any))
	}
	for _, name := range names {
		switch {
		case slices.Contains(required, any(name)):
			if g.wrong() {
				continue
			}
		case schema["maxProperties"] != nil && len(object) > 0 && !g.wrong(), schema["maxProperties"] == nil && g.IntN(3) > 0:
			continue
		}
		object[name] = g.value(properties[name].(map[string]any))
	}
	if g.wrong() {
		object[[]string{"", "Limits", "limit", "x.y", "quota", "env"}[g.IntN(6)]] = strays[g.IntN(len(strays))]
	}
	return object
}

func bound(schema map[string]any, key string, otherwise int64) int64 {
	if text, ok := schema[key].(json.Number); ok {
		n, _ := text.Int64()
		return n
	}
	return otherwise
}

// number draws a whole number, often at a bound; a mistake is one past it.
func (g *generator) number(schema map[string]any, least, most string) int64 {
	low, high := bound(schema, least, 0), bound(schema, most, 1<<40)
	switch {
	case g.wrong():
		return []int64{low - 1, high + 1, -high}[g.IntN(3)]
	case g.IntN(3) == 0:
		return []int64{low, high}[g.IntN(2)]
	}
	return low + g.Int64N(high-low+1)
}

// count draws a length, small but for mistakes; a long one is a mistake or the bound.
func (g *generator) count(schema map[string]any, least, most string) int64 {
	low, high := bound(schema, least, 0), bound(schema, most, 1<<40)
	switch {
	case g.wrong() && high < 20:
		return high + g.Int64N(2)
	case g.wrong():
		return max(0, low-1)
	}
	return low + g.Int64N(min(3, high-low+1))
}

func (g *generator) text(schema map[string]any) string {
	pattern, _ := schema["pattern"].(string)
	expression := g.compiled[pattern]
	if expression == nil {
		expression = regexp.MustCompile(pattern)
		g.compiled[pattern] = expression
	}
	for tries := 0; ; tries++ {
		if tries == 100_000 {
			panic("strays has no text of the form " + pattern)
		}
		text, is := strays[g.IntN(len(strays))].(string)
		if is && (g.wrong() || expression.MatchString(text) && int64(len(text)) >= bound(schema, "minLength", 0)) {
			return text
		}
	}
}
