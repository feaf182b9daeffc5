// SPDX-License-Identifier: Apache-2.0

package npm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sources are the files that the server serves, before they are minified: a bundler does that itself, and its source maps
// and the errors of a browser then name lines that can be read.
var sources = []string{
	"middleware/internal/assets/tally.js", "middleware/internal/assets/fetch.js", "middleware/internal/assets/texts.js",
	"middleware/internal/assets/tally.css", "pow/solver.js",
}

// beside are the files that an npm package has beside them.
var beside = []string{
	"LICENSE", "internal/npm/package/package.json", "internal/npm/package/README.md",
	"internal/npm/package/tally.d.ts", "internal/npm/package/fetch.d.ts", "internal/npm/package/solver.d.ts",
}

// The one line that differs from the sources. There a worker is started from
// the module's own URL, which changes with its content. A bundler puts the module into
// another file, which as a worker would run the page's program once more. What it knows
// is a URL that is written out, and options that are constants.
const (
	ownName    = `const NAME = "tallystick-solver";`
	ownURL     = `new Worker(import.meta.url, { type: "module", name: NAME })`
	writtenOut = `new Worker(new URL("./solver.js", import.meta.url), { type: "module", name: "tallystick-solver" })`
)

// versions are accepted by npm and by the Go command: vX.Y.Z without the v.
var versions = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// Write writes the package into an empty directory, to be packed by "npm pack". root is the
// top of this repository.
func Write(dir, version, root string) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("npm: %q is no version such as 1.2.3", version)
	}
	files := make(map[string]string)
	languages, err := fs.Glob(os.DirFS(root), "middleware/internal/assets/texts-*.js")
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(sources, languages, beside) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		files[filepath.Base(name)] = string(text)
	}
	for _, line := range []string{ownName, ownURL} {
		if strings.Count(files["solver.js"], line) != 1 {
			return fmt.Errorf("npm: solver.js starts its workers in another way: there is not one %s", line)
		}
	}
	files["solver.js"] = strings.Replace(files["solver.js"], ownURL, writtenOut, 1)
	const unset = `"version": "0.0.0"`
	if strings.Count(files["package.json"], unset) != 1 {
		return fmt.Errorf("npm: package.json has not one %s", unset)
	}
	files["package.json"] = strings.Replace(files["package.json"], unset, `"version": "`+version+`"`, 1)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	switch there, err := os.ReadDir(dir); {
	case err != nil:
		return err
	case len(there) > 0:
		return fmt.Errorf("npm: %s is not empty", dir)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
