// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the bill of materials of one module: CycloneDX 1.6, JSON.
//
//	go run ./sbom -module ../.. -version v1.2.3 >tallystick.cdx.json
//
// It names the modules that a user links by importing any package of the module, and the
// Go release that they are for. What only tests need is not in it. Two runs on one commit
// write the same bytes: there is no serial number and no time.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	dir := flag.String("module", ".", "the module's folder")
	version := flag.String("version", "", "the version that is released, such as v1.2.3 (required)")
	flag.Parse()
	err := errors.New("sbom: -version is required")
	if *version != "" {
		err = write(os.Stdout, *dir, *version)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the bill of materials of the module in dir.
func write(w io.Writer, dir, version string) error {
	main, linked, err := modules(dir)
	if err != nil {
		return err
	}
	main.Version = version
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill(main, linked), cdx.SpecVersion1_6)
}

type module struct {
	Path, Version, GoVersion string
	Sum                      string // as in go.sum; "" for a module of this repository
	Main                     bool
	Replace                  *module
}

// golist is the go command in dir, by the module alone.
func golist(dir string, args ...string) *exec.Cmd {
	list := exec.Command("go", append([]string{"list"}, args...)...)
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOWORK=off")
	return list
}

// packages returns the packages of the module in dir that its users may import.
func packages(dir string) (public []string, err error) {
	out, err := golist(dir, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("sbom: go list in %s: %w", dir, err)
	}
	for _, name := range strings.Fields(string(out)) {
		if !strings.Contains(name, "/internal/") && !strings.Contains(name, "/proof/") {
			public = append(public, name)
		}
	}
	if len(public) == 0 {
		return nil, fmt.Errorf("sbom: %s: no packages", dir)
	}
	return public, nil
}

// modules asks the go command which modules the packages in dir need, without their tests.
func modules(dir string) (main module, linked []module, err error) {
	public, err := packages(dir)
	if err != nil {
		return main, nil, err
	}
	list := golist(dir, append([]string{"-deps", "-json=Module"}, public...)...)
	out, err := list.StdoutPipe()
	if err != nil {
		return main, nil, err
	}
	if err := list.Start(); err != nil {
		return main, nil, err
	}
	known := map[string]bool{}
	for d := json.NewDecoder(out); ; {
		var p struct{ Module *module }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return main, nil, errors.Join(fmt.Errorf("sbom: what go list says: %w", err), list.Wait())
		}
		switch m := p.Module; {
		case m == nil || known[m.Path]: // the standard library has no module
		case m.Main:
			main = *m
		default:
			known[m.Path] = true
			linked = append(linked, *m)
		}
	}
	if err := list.Wait(); err != nil {
		return main, nil, fmt.Errorf("sbom: go list in %s: %w", dir, err)
	}
	slices.SortFunc(linked, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return main, linked, nil
}

// bill is the document. A module of this repository has the version that is released: until
// then it is replaced by the folder beside.
func bill(main module, linked []module) *cdx.BOM {
	bom := cdx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cdx.Metadata{Component: component(main, cdx.ComponentTypeLibrary)}
	bom.Metadata.Component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	needs := []string{}
	components := []cdx.Component{}
	for _, m := range linked {
		if m.Replace != nil && m.Replace.Version == "" {
			m.Version = main.Version
		}
		c := component(m, cdx.ComponentTypeLibrary)
		components = append(components, *c)
		needs = append(needs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: bom.Metadata.Component.BOMRef, Dependencies: &needs}}
	return bom
}

func component(m module, kind cdx.ComponentType) *cdx.Component {
	// The package URL type of Go: namespace and name in lower case, with slashes.
	purl := "pkg:golang/" + strings.ToLower(m.Path) + "@" + m.Version
	c := &cdx.Component{BOMRef: purl, Type: kind, Name: m.Path, Version: m.Version, PackageURL: purl}
	properties := []cdx.Property{}
	if m.Sum != "" {
		// A hash over all files of the module, so none of the algorithms that Hashes may name.
		properties = append(properties, cdx.Property{Name: "go.sum", Value: m.Sum})
	}
	if m.GoVersion != "" {
		properties = append(properties, cdx.Property{Name: "go.mod go", Value: m.GoVersion})
	}
	if len(properties) > 0 {
		c.Properties = &properties
	}
	return c
}
