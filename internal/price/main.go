// SPDX-License-Identifier: Apache-2.0

// Command price prints what own tallies cost and what they are worth: the tables of
// its README. It plays buyers against the real memory of package limiter and the real prices of
// package shop. All numbers are integers, time is an argument, and the seeds are fixed, so
// that every machine prints the same.
//
//	go run ./internal/price          # prints the tables
//	go run ./internal/price -update  # writes them into its README
package main

import (
	"flag"
	"fmt"
	"os"
)

const page = "internal/price/README.md"

func main() {
	update := flag.Bool("update", false, "write the tables into "+page+", from the root of the repository")
	flag.Parse()
	if err := run(*update); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(update bool) error {
	var (
		file []byte
		err  error
	)
	if update {
		if file, err = os.ReadFile(page); err != nil {
			return err
		}
	}
	for _, t := range tables() {
		text := t.text()
		fmt.Printf("%s\n%s\n", t.name, text)
		if !update {
			continue
		}
		if file, err = put(file, t.name, text); err != nil {
			return err
		}
	}
	if !update {
		return nil
	}
	return os.WriteFile(page, file, 0o644)
}
