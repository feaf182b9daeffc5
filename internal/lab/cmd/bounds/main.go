// SPDX-License-Identifier: Apache-2.0

// Command bounds plays attackers, crowds and a day of traffic against the code of this
// repository, and prints what they are admitted: the tables of the README, of docs/bounds.md
// and of internal/lab/README.md, see package sim. "make bounds" writes them into the pages.
//
//	go run ./cmd/bounds                  # prints the tables, from internal/lab
//	go run ./cmd/bounds -update ../..    # writes them into the pages of that repository
//	go run ./cmd/bounds -only yield,day  # these alone
//	go run ./cmd/bounds -instances 10    # Config.Instances is ten times too large; 0 leaves it out
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tallystick/tallystick/internal/lab/sim"
)

func main() {
	update := flag.String("update", "", "write the tables into the pages of the repository in this `directory`")
	only := flag.String("only", "", "the `names` of the tables to make, with commas; all if it is empty")
	seed := flag.Uint64("seed", sim.Seed, "where chance begins")
	instances := flag.Float64("instances", 1, "have Config.Instances say so many times the truth; 0 leaves it out")
	flag.Parse()
	o := sim.Options{Seed: *seed}
	if *instances != 1 {
		o.Instances = func(n int) int64 { return max(1, int64(*instances*float64(n))) }
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	if err := run(o, *update, names); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o sim.Options, root string, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(sim.Tables(o), func(t sim.Table) bool { return t.Name == name }) {
			return fmt.Errorf("bounds: no table is called %s", name)
		}
	}
	for _, t := range sim.Tables(o) {
		if names != nil && !slices.Contains(names, t.Name) {
			continue
		}
		began := time.Now()
		text := t.Text()
		fmt.Printf("%s: %s, %s\n%s\n", t.Page, t.Name, time.Since(began).Round(time.Millisecond), text)
		if root == "" {
			continue
		}
		file := filepath.Join(root, t.Page)
		page, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if page, err = t.Put(page, text); err != nil {
			return err
		}
		if err = os.WriteFile(file, page, 0o644); err != nil {
			return err
		}
	}
	return nil
}
