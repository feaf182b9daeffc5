// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	module  = "github.com/tallystick/tallystick"
	command = module + "/internal/peers/cmd/report"
)

// A variant is this repository with one change: is what it changes worth having?
type variant struct {
	Name string
	File string // from the root of the repository
	Old  string // is there exactly once
	New  string
	Why  string
}

// readVariants reads those of a file, which must all find their place.
func readVariants(name, root string) ([]variant, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []variant
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, v := range all {
		source, err := os.ReadFile(filepath.Join(root, v.File))
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(source), v.Old); n != 1 {
			return nil, fmt.Errorf("%s: what %s changes is there %d times, not once", v.File, v.Name, n)
		}
	}
	return all, nil
}

// findRoot returns where the repository is.
func findRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	return strings.TrimSpace(string(out)), err
}

// build builds this command, changed if v is not nil.
func build(ctx context.Context, v *variant, root, dir string) (binary string, err error) {
	args := []string{"build"}
	binary = filepath.Join(dir, "as-it-is")
	if v != nil {
		binary = filepath.Join(dir, v.Name)
		name := filepath.Join(root, v.File)
		source, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{name: binary + ".go"}})
		if err != nil {
			return "", err
		}
		changed := strings.Replace(string(source), v.Old, v.New, 1)
		if err := errors.Join(os.WriteFile(binary+".go", []byte(changed), 0o600), os.WriteFile(binary+".json", overlay, 0o600)); err != nil {
			return "", err
		}
		args = append(args, "-overlay", binary+".json")
	}
	if text, err := exec.CommandContext(ctx, "go", append(args, "-o", binary, command)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", filepath.Base(binary), err, text)
	}
	return binary, nil
}

// measureVariants measures counters as they are and as each variant changes them, in
// turn, each time in a new process.
func measureVariants(ctx context.Context, o options, out, progress io.Writer) (err error) {
	root, err := findRoot(ctx)
	if err != nil {
		return err
	}
	variants, err := readVariants(o.against, root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peers-variants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	names, binaries := []string{""}, make([]string, 1+len(variants))
	if binaries[0], err = build(ctx, nil, root, dir); err != nil {
		return err
	}
	for i, v := range variants {
		names = append(names, variantMark+v.Name)
		if binaries[i+1], err = build(ctx, &v, root, dir); err != nil {
			return err
		}
	}
	each := o.countersSpan() / time.Duration(o.count*len(binaries))
	for round := range o.count {
		fmt.Fprintf(progress, "%3d%% round %d of %d, %s each\n", 100*round/o.count, round+1, o.count, each.Round(time.Millisecond))
		for i := range binaries {
			i = (i + round) % len(binaries)
			text, err := runVariant(ctx, o, binaries[i], each, filepath.Join(dir, "raw"))
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(binaries[i]), err)
			}
			if _, err := out.Write(rename(text, names[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// runVariant returns what one process measures.
func runVariant(ctx context.Context, o options, binary string, span time.Duration, raw string) ([]byte, error) {
	c := exec.CommandContext(ctx, binary, "-only", "counters", "-count", "1", "-span", span.String(),
		"-rows", o.rows, "-keys", strconv.Itoa(o.keys), "-dir", o.dir, "-raw", raw)
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return os.ReadFile(raw)
}

// variantMark is between the name of a counter and that of a variant.
const variantMark = "~"

// rename puts a suffix behind the names of counters.
func rename(raw []byte, suffix string) []byte {
	var all []byte
	for line := range bytes.Lines(raw) {
		if name, rest, found := bytes.Cut(line, []byte("/counter=")); found {
			end := bytes.IndexAny(rest, "/\t")
			line = fmt.Appendf(nil, "%s/counter=%s%s%s", name, rest[:end], suffix, rest[end:])
		}
		all = append(all, line...)
	}
	return all
}
