// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/proof/kit"
)

const sample = "./testdata/sample"

// plain is the bench of the sample: making one takes half a second.
var plain *bench

func plainly(t *testing.T) *bench {
	t.Helper()
	if plain == nil {
		dir := kit.Must(os.MkdirTemp("", "bench"))(t)
		plain = kit.Must(newBench(sample, dir, nil, "../user"))(t)
	}
	return plain
}

func TestMain(m *testing.M) {
	code := m.Run()
	if plain != nil {
		_ = os.RemoveAll(plain.dir)
	}
	os.Exit(code)
}

// TestTry breaks a sample in each way that ends differently.
func TestTry(t *testing.T) {
	kit.Outside(t)
	tests := map[string]struct {
		mutant *Mutant
		want   outcome
		by     string
	}{
		"no mutant":           {nil, survived, ""},
		"a test notices":      {&Mutant{In: "Allowed", Old: "n <= limit", New: "n < limit"}, killed, "TestAllowed"},
		"no test notices":     {&Mutant{In: "Allowed", Old: "n < 0", New: "n < -1"}, survived, ""},
		"panics":              {&Mutant{In: "Allowed", Old: "return n <= limit", New: `panic("broken")`}, killed, "TestAllowed"},
		"does not compile":    {&Mutant{In: "Allowed", Old: "n <= limit", New: "limit"}, broken, ""},
		"unused variable":     {&Mutant{In: "Allowed", Old: "return n <= limit", New: "x := 1; return true"}, broken, ""},
		"test of another":     {&Mutant{In: "sample_test.go", Old: "Allowed(3, 3)", New: "Permitted()"}, broken, ""},
		"old text is gone":    {&Mutant{In: "Allowed", Old: "n << limit", New: "n"}, misplaced, ""},
		"old text is twice":   {&Mutant{In: "Allowed", Old: "return", New: "panic"}, misplaced, ""},
		"declaration is gone": {&Mutant{In: "Other", Old: "n", New: "m"}, misplaced, ""},
		"other white space":   {&Mutant{In: "Allowed", Old: "n < 0 {\n return false }", New: "n < 0 {\n\t\treturn true\n\t}"}, survived, ""},
		"below":               {&Mutant{In: "below/Half", Old: "n / 2", New: "n"}, killed, "TestElsewhere"},
		"embedded":            {&Mutant{In: "word.txt", Old: "hello", New: "bye"}, killed, "TestElsewhere"},
		"a user notices":      {&Mutant{In: "Thrice", Old: "n + n + n", New: "n + n"}, killed, "../user.TestUse"},
		"change is harmless":  {&Mutant{In: "Spin", Old: "i++", New: "i += 1"}, survived, ""},
		"signature":           {&Mutant{In: "Twice", Old: "Twice(n int) int { return n + n", New: "Twice(k int) int { return k"}, killed, "TestOutside"},
	}
	var all, compile []Mutant
	for name, tt := range tests {
		if tt.mutant == nil {
			continue
		}
		if tt.mutant.Name = name; tt.want == killed || tt.want == survived {
			compile = append(compile, *tt.mutant)
		}
		all = append(all, *tt.mutant)
	}
	behind := kit.Must(newBench(sample, t.TempDir(), compile, "../user"))(t)
	require.Len(t, behind.number, len(compile)-2, "all but the signature and the file of words")
	one := kit.Must(newBench(sample, t.TempDir(), all, "../user"))(t)
	require.Empty(t, one.number, "one does not compile")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := kit.Must(os.ReadFile(filepath.Join(sample, "sample.go")))(t)
			for _, b := range []*bench{plainly(t), behind, one} {
				r := b.try(t.TempDir(), tt.mutant, test{})
				require.Equal(t, tt.want, r.outcome, r.output)
				require.Equal(t, testOf(tt.by), r.by, r.output)
			}
			after := kit.Must(os.ReadFile(filepath.Join(sample, "sample.go")))(t)
			require.Equal(t, before, after, "the file itself is never touched")
		})
	}
}

// TestKillers: a test that noticed once is asked first; one that is gone, or does
// not notice, changes nothing.
func TestKillers(t *testing.T) {
	kit.Outside(t)
	b := plainly(t)
	noticed := &Mutant{In: "Twice", Old: "n + n", New: "n"}
	for name, tt := range map[string]struct {
		mutant *Mutant
		first  string
		want   outcome
		by     string
	}{
		"the one that noticed":    {noticed, "TestOutside", killed, "TestOutside"},
		"one that does not":       {noticed, "TestSpin", killed, "TestOutside"},
		"one that is gone":        {noticed, "TestGone", killed, "TestOutside"},
		"of another package":      {&Mutant{In: "Thrice", Old: "n + n + n", New: "n + n"}, "../user.TestUse", killed, "../user.TestUse"},
		"first of the other":      {&Mutant{In: "Allowed", Old: "n <= limit", New: "n < limit"}, "../user.TestUse", killed, "../user.TestUse"},
		"package that is gone":    {noticed, "../gone.TestOutside", killed, "TestOutside"},
		"survives, whatever said": {&Mutant{In: "Allowed", Old: "n < 0", New: "n < -1"}, "TestAllowed", survived, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.try(t.TempDir(), tt.mutant, testOf(tt.first))
			require.Equal(t, tt.want, r.outcome, r.output)
			require.Equal(t, testOf(tt.by), r.by)
		})
	}
}

// TestKillersAreRemembered goes from one run to the next.
func TestKillersAreRemembered(t *testing.T) {
	pkg := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(pkg, "testdata"), 0o700))
	k := loadKillers(t, pkg)
	for mutant, name := range map[string]string{
		"a": "TestA", "b": "TestB/some_part", "c": "test timed out after 1m0s", "d": "an exit without a word", "gone": "TestC",
	} {
		k.note(mutant, test{".", name})
	}
	k.note("f", test{"../user", "TestUse/some_part"})
	specs := []Mutant{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}}
	k.save(t, specs)
	require.Empty(t, loadKillers(t, pkg).by, "only where that is asked for")
	t.Setenv("TALLYSTICK_MUTANTS_KILLERS", "write")
	k.save(t, specs)
	require.Equal(t, map[string]string{"a": "TestA", "b": "TestB", "f": "../user.TestUse"}, loadKillers(t, pkg).by)
	require.Equal(t, test{"../user", "TestUse"}, loadKillers(t, pkg).of("f"))
}

// TestPlan: with a short time each run begins with other mutants, and none is
// left out for ever.
func TestPlan(t *testing.T) {
	var specs []Mutant
	for i := range 50 {
		specs = append(specs, Mutant{Name: string(rune('A' + i))})
	}
	require.Equal(t, specs, plan{}.order(specs))
	begun := map[string]bool{}
	for range 100 {
		order := plan{time: 1}.order(specs)
		require.ElementsMatch(t, specs, order)
		for _, m := range order[:10] {
			begun[m.Name] = true
		}
	}
	require.Len(t, begun, len(specs))

	for _, tt := range []struct {
		n           int64
		time, spent time.Duration
		want        bool
	}{
		{1, 0, time.Hour, true}, {9, 0, time.Hour, true}, // no end
		{9, time.Minute, time.Minute, true}, {9, time.Minute, time.Minute + 1, false},
		{1, time.Minute, time.Hour, true}, {2, time.Minute, time.Hour, false}, // one at least
	} {
		require.Equal(t, tt.want, plan{time: tt.time}.begins(tt.n, tt.spent), tt)
	}

	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "2h": 2 * time.Hour} {
		p := kit.Must(planned(func(string) string { return text }))(t)
		require.Equal(t, plan{time: want, since: text}, p)
	}
	_, err := planned(func(string) string { return "90" })
	require.ErrorContains(t, err, "TALLYSTICK_MUTANTS_TIME")
}

// TestLoad: a list that could check less than it says is an error.
func TestLoad(t *testing.T) {
	const good = `{"name": "a", "in": "f", "old": "x", "new": "y", "why": "z"}`
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"good":          {[]string{"[" + good + "]"}, ""},
		"two files":     {[]string{"[" + good + "]", `[{"name": "b", "in": "f", "old": "x", "new": "", "why": "z"}]`}, ""},
		"none":          {nil, "no mutants"},
		"empty":         {[]string{"[]"}, "no mutants"},
		"not JSON":      {[]string{"{"}, "unexpected"},
		"unknown field": {[]string{`[{"name": "a", "file": "f.go"}]`}, "unknown field"},
		"no old":        {[]string{`[{"name": "a", "in": "f", "new": "y", "why": "z"}]`}, "needs"},
		"no change":     {[]string{`[{"name": "a", "in": "f", "old": "y", "new": "y", "why": "z"}]`}, "needs"},
		"name twice":    {[]string{"[" + good + "," + good + "]"}, "two mutants"},
		"across files":  {[]string{"[" + good + "]", "[" + good + "]"}, "two mutants"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, text := range tt.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(text), 0o600))
			}
			specs, err := Load(filepath.Join(dir, "*.json"))
			if tt.want == "" {
				require.NoError(t, err)
				require.Len(t, specs, len(tt.files))
			} else {
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, specs)
			}
		})
	}
}

// TestSince: what a commit knows is not tried again, whatever file it has moved to.
func TestSince(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		kit.Unable(t, "there is no git")
	}
	pkg := t.TempDir()
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(pkg, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(pkg, file), []byte(text), 0o600))
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = pkg
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	write("a.go", "package a\n\nfunc moved() { x() }\n\nfunc (t *T[K]) changed() { x() }\n\nfunc stays() { x() }\n")
	write("a_test.go", "package a\n\nfunc TestIt(t *testing.T) {}\n")
	write("b.lua", "x")
	write("user/c_test.go", "package c\n\nfunc TestUse(t *testing.T) {}\n")
	write("testdata/mutants/a.json", `[{"name": "listed", "in": "stays", "old": "y"}]`)
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "a")
	write("a.go", "package a\n\nfunc (t *T[K]) changed() { x(); y() }\n\nfunc stays() { x() }\n")
	write("a_test.go", "package a\n\n// As before.\nfunc TestIt(t *testing.T) {}\n")
	write("b.go", "package a\n\nfunc moved() {\n\tx()\n}\n\nvar added, more = x(), 1\n")
	write("b.lua", "x x")
	write("user/c_test.go", "package c\n\n// As before.\nfunc TestUse(t *testing.T) {}\n")
	write("testdata/mutants/a.json", `[{"name": "listed", "in": "stays", "old": "x"}]`)
	specs := []Mutant{
		{Name: "1", In: "T.changed"}, {Name: "2", In: "more"}, {Name: "3", In: "b.lua"}, {Name: "listed", In: "stays", Old: "x"}, {Name: "killed", In: "stays"}, {Name: "used", In: "stays"},
		{Name: "4", In: "moved"}, {Name: "5", In: "stays"}, {Name: "6", In: "stays"},
	}
	killer := func(mutant string) test {
		return testOf(map[string]string{"killed": "TestIt", "used": "user.TestUse", "5": "TestElsewhere", "6": "TestUse"}[mutant])
	}
	tried, err := since("HEAD", pkg, specs, killer)
	require.NoError(t, err)
	require.Equal(t, specs[:6], tried)
	_, err = since("nowhere", pkg, specs, killer)
	require.ErrorContains(t, err, "nowhere")
}

// TestRun goes the whole way, over a mutant that is killed.
func TestRun(t *testing.T) {
	run(t, sample, []Mutant{{Name: "at the limit", In: "Allowed", Old: "n <= limit", New: "n < limit", Why: "the last request"}}, plan{time: 1})
}

// TestAsked: mutants are tried where -run names them, and nowhere else.
func TestAsked(t *testing.T) {
	for pattern, want := range map[string]bool{
		"": false, "Test": false, "TestRun|TestLoad": false, ".": false,
		"TestMutants": true, "^TestMutants$": true, "Mutants": true, "TestMutants/at_the_limit": true,
	} {
		require.Equal(t, want, asked(pattern), pattern)
	}
}

// TestRecursion: the tests of a mutant start no mutants.
func TestRecursion(t *testing.T) {
	t.Setenv(running, "1")
	ran := true
	t.Run("skips", func(t *testing.T) {
		defer func() { ran = !t.Skipped() }()
		attempt(t, "./does-not-exist", nil)
	})
	require.False(t, ran)
}

// TestMutants breaks every package that has a list of mutants, in each way that stands there; each time some test of the
// package must fail, or of those that show what a whole site gives.
func TestMutants(t *testing.T) {
	others := map[string][]string{"middleware": {"../proof/bounds", "../proof/threats"}}
	var packages []string
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() && strings.HasSuffix(path, "/testdata/mutants"):
			packages = append(packages, strings.TrimSuffix(path, "/testdata/mutants"))
		}
		return nil
	}))
	require.Greater(t, len(packages), 30)
	for _, dir := range packages { // -run takes a slash for a subtest
		pkg := strings.TrimPrefix(dir, "../../")
		t.Run(strings.ReplaceAll(pkg, "/", "."), func(t *testing.T) { attempt(t, dir, kit.Must(Load(dir+"/testdata/mutants/*.json"))(t), others[pkg]...) })
	}
}
