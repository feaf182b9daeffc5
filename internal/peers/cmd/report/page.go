// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

// A section is what is between two marks of a page, and is written there by update alone.
type section struct {
	name  string // in the marks
	title string // of the section in a report; "" is none
	write func(r *results, head string) string
}

// sections are all there are. What was not measured is written as "", and the page keeps what
// it has.
var sections = []section{
	{"requests", "A request", requestTable},
	{"served", "In a real server", tripTable},
	{"cores", "On several processors", coreTable},
	{"limiters", "", limiterTable},
	{"summary", "", summaryTable},
	{"counters", "Counters", counterTable},
}

// marks returns the lines around a section.
func (s section) marks() (begin, end string) {
	return "<!-- " + s.name + ": written by cmd/report -update -->\n", "<!-- end of " + s.name + " -->\n"
}

// update writes what was measured between the marks of a page.
func update(page string, r *results, head string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, written := string(old), false
	for _, s := range sections {
		begin, end := s.marks()
		before, rest, found := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if found != ended {
			return fmt.Errorf("%s has the line %q or %q without the other", page, begin, end)
		}
		table := s.write(r, head)
		if !found || table == "" {
			continue
		}
		text, written = before+begin+"\n"+table+"\n"+end+after, true
	}
	if !written {
		return fmt.Errorf("%s has no marks of what was measured", page)
	}
	return os.WriteFile(page, []byte(text), 0o644)
}
