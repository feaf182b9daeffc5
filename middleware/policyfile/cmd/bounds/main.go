// SPDX-License-Identifier: Apache-2.0

// The command bounds prints what clients get at most by the policies of a file, so that a change of the file is judged
// before it goes live:
//
//	go run github.com/tallystick/tallystick/middleware/policyfile/cmd/bounds policies.json
//
// It needs neither the program nor the secrets. docs/bounds.md says what the rows mean.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tallystick/tallystick/middleware/policyfile"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("usage: bounds policies.json")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	all, err := policyfile.Bounds(args[0], text)
	for _, b := range all {
		fmt.Fprintln(stdout, b)
	}
	return err
}
