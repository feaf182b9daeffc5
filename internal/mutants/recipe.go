// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A recipe is how the go command makes the test binary of one package: the two
// commands that a mutant changes the outcome of, compile and link, as they were run
// for the package unbroken.
//
// The go command compiles all tests of a package again for each change of it. That
// is most of the time that a mutant takes, and mostly for nothing: the tests that
// stand outside of the package (package x_test) depend on what it exports, and a
// change within a function does not touch that. The linker is the judge: each object
// names the export data that it was compiled against, by a hash, and the linker
// refuses what does not fit. So nothing is ever tested that the go command would not
// have built, and where the recipe fails, for whatever reason, the go command builds.
//
// A mutant may be in a package below, which is compiled in its place.
type recipe struct {
	packages map[string]*compiled // by directory, as mutants name it
	link     command
}

// compiled is how a package was compiled.
type compiled struct {
	dir, importPath string
	fresh           string // a file of it that no build has seen
	compile         command
}

type command struct {
	dir   string
	words []string
}

// recorder is what the go command calls in place of its tools, by -toolexec: it
// writes down the package, the directory and the words of the command, and runs it.
const recorder = `{ echo "$TOOLEXEC_IMPORTPATH"; pwd; printf '%s\n' "$@"; } > "$` + recordings + `/${1##*/}.$$"
exec "$@"
`

const recordings = "TALLYSTICK_RECORDINGS"

// record builds the tests of a package into binary, and returns how the go command did
// it. The mutants are in some directories, "." for the package's own. What the recipe
// names lies below dir, or in the build cache.
func record(pkg, dir, binary, gcflags string, within ...string) (*recipe, error) {
	r, replace := &recipe{packages: map[string]*compiled{}}, map[string]string{}
	for i, rel := range append(within, ".") {
		if r.packages[rel] != nil {
			continue
		}
		list := exec.Command("go", "list", "-f", "{{.Dir}}\n{{.ImportPath}}\n{{.Name}}", "./"+rel)
		list.Dir = pkg
		about, err := list.Output()
		if err != nil {
			return nil, err
		}
		listed := strings.Split(strings.TrimSpace(string(about)), "\n")
		if len(listed) != 3 {
			return nil, errors.New("go list says: " + string(about))
		}
		// A file that no build has seen, for what is in the cache is not compiled. The
		// name of the directory is random.
		p := &compiled{dir: listed[0], importPath: listed[1], fresh: filepath.Join(dir, "fresh"+strconv.Itoa(i)+".go")}
		if err := os.WriteFile(p.fresh, []byte("package "+listed[2]+" // "+dir+"\n"), 0o600); err != nil {
			return nil, err
		}
		r.packages[rel], replace[filepath.Join(p.dir, "zz_fresh.go")] = p, p.fresh
	}
	overlay, err := overlaid(dir, replace)
	script := filepath.Join(dir, "recorder")
	if err := errors.Join(err, os.WriteFile(script, []byte(recorder), 0o600)); err != nil {
		return nil, err
	}
	// -work keeps the objects and the lists of them, in GOTMPDIR.
	build := goTest(overlay, binary, pkg, gcflags, "-work", "-toolexec=/bin/sh "+script)
	build.Env = append(os.Environ(), recordings+"="+dir, "GOTMPDIR="+dir)
	if output, err := build.CombinedOutput(); err != nil {
		return nil, errors.New(err.Error() + ": " + string(output))
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.*"))
	for _, file := range files {
		r.learn(file)
	}
	if r.packages["."].compile.words == nil || r.link.words == nil {
		return nil, errors.New("the go command did not compile and link as expected")
	}
	return r, nil
}

// overlaid writes the file that tells the go command to read some files in place of others.
func overlaid(dir string, replace map[string]string) (string, error) {
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// goTest is the go command that builds the tests of a package.
func goTest(overlay, binary, pkg, gcflags string, more ...string) *exec.Cmd {
	// Debugging information would be a fifth of the work.
	args := append([]string{"test", "-overlay=" + overlay, "-vet=off",
		"-gcflags=-dwarf=false " + gcflags, "-ldflags=-s -w", "-c", "-o", binary}, more...)
	return exec.Command("go", append(args, pkg)...)
}

// learn reads a recording, if it is one of the two that matter.
func (r *recipe) learn(file string) {
	tool, _, _ := strings.Cut(filepath.Base(file), ".")
	if tool != "compile" && tool != "link" {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if slices.Contains(words, "-V=full") { // the go command asks for the tool's version
		return
	}
	made := command{dir: words[1], words: words[2:]}
	if tool == "link" {
		r.link = made
		return
	}
	for _, p := range r.packages {
		if slices.Contains(words, p.fresh) {
			p.compile = made
		}
	}
}

// build builds the tests with one file of the package changed, and says whether
// that was possible.
func (r *recipe) build(file, changed, binary string) bool {
	if r == nil {
		return false
	}
	p := cmp.Or(r.packages[filepath.Dir(file)], r.packages["."]) // that embeds a text
	if p.compile.words == nil {
		return false
	}
	object, original := binary+".a", filepath.Join(r.packages["."].dir, file)
	compile, link := p.compile.clone(), r.link.clone()
	if at := slices.Index(compile.words, original); at >= 0 {
		compile.words[at] = changed
	} else if !compile.embed(original, changed, binary+".embed") {
		return false
	}
	// The name of a file is part of what a package exports.
	trimmed := changed + "=>" + original + ";" + compile.get("-trimpath")
	if !compile.set("-trimpath", trimmed) || !compile.set("-o", object) || !compile.run() {
		return false
	}
	objects, ok := p.objects(link.get("-importcfg"), object)
	if !ok || os.WriteFile(binary+".cfg", objects, 0o600) != nil {
		return false
	}
	return link.set("-importcfg", binary+".cfg") && link.set("-o", binary) && link.run()
}

// objects returns the linker's list of objects, with another for the package.
func (p *compiled) objects(list, object string) (text []byte, ok bool) {
	listed, err := os.ReadFile(list)
	if err != nil {
		return nil, false
	}
	of := "packagefile " + p.importPath + "="
	for line := range strings.Lines(string(listed)) {
		if strings.HasPrefix(line, of) {
			line, ok = of+object+"\n", true
		}
		text = append(text, line...)
	}
	return text, ok
}

// embed embeds another file in the place of one, and says whether that is embedded.
func (c command) embed(original, changed, list string) bool {
	text, err := os.ReadFile(c.get("-embedcfg"))
	old, _ := json.Marshal(original)
	if err != nil || !bytes.Contains(text, old) {
		return false
	}
	new, _ := json.Marshal(changed)
	return os.WriteFile(list, bytes.ReplaceAll(text, old, new), 0o600) == nil && c.set("-embedcfg", list)
}

func (c command) clone() command { return command{c.dir, slices.Clone(c.words)} }

func (c command) run() bool {
	cmd := exec.Command(c.words[0], c.words[1:]...)
	cmd.Dir = c.dir
	return cmd.Run() == nil
}

// value returns where the value of a flag stands, or -1.
func (c command) value(flag string) int {
	if at := slices.Index(c.words, flag); at >= 0 && at+1 < len(c.words) {
		return at + 1
	}
	return -1
}

// get returns the value of a flag.
func (c command) get(flag string) string {
	if at := c.value(flag); at >= 0 {
		return c.words[at]
	}
	return ""
}

// set replaces the value of a flag, and says whether it was there.
func (c command) set(flag, value string) bool {
	at := c.value(flag)
	if at >= 0 {
		c.words[at] = value
	}
	return at >= 0
}
