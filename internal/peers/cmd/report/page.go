// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

// What is between these lines of a page is written by update alone.
const (
	beginMark = "<!-- counters: written by cmd/report -only counters -update -->\n"
	endMark   = "<!-- end of counters -->\n"
)

// update writes a text between the marks of a page.
func update(page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return fmt.Errorf("%s has no lines %q and %q", page, beginMark, endMark)
	}
	return os.WriteFile(page, []byte(before+beginMark+"\n"+text+"\n"+endMark+after), 0o644)
}
