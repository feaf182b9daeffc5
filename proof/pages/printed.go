// SPDX-License-Identifier: Apache-2.0

// Package pages reads what the pages of the documentation print, for the tests that
// run it, and the constants that the pages must name. It writes the tables that programs make.
package pages

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A Block is the text between two fences.
type Block struct {
	Page     string
	Line     int    // of the first fence
	Language string // after the first fence
	RunBy    string // the test that a comment before it names; "" for the runner of its language
	From     string // the file that a comment before it names, which holds the block; "" for none
	Text     string
}

// A Table is one of Markdown, cell by cell.
type Table struct {
	Head   string // its first line
	HeldBy string // the test, as "FILE TEST", of the last comment before it in its section that names one
	Rows   [][]string
}

var (
	fence    = regexp.MustCompile("^ *```(.*)$")
	runBy    = regexp.MustCompile(`^<!-- run by (Test\w+) -->$`)
	heldBy   = regexp.MustCompile(`^<!-- held by (\S+ Test\w+) -->$`)
	from     = regexp.MustCompile(`^<!-- from (\S+) -->$`)
	indented = regexp.MustCompile(`^(    |\t)`)
)

// Read takes a page apart. Indented code is an error: it would be a block that no test sees.
func Read(page string) (blocks []Block, tables []Table, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	open, named, file, held := false, "", "", ""
	for i, line := range lines {
		opened := fence.FindStringSubmatch(line)
		switch {
		case open && opened != nil:
			open = false
		case open:
			blocks[len(blocks)-1].Text += line + "\n"
		case opened != nil:
			open = true
			blocks = append(blocks, Block{Page: page, Line: i + 1, Language: opened[1], RunBy: named, From: file})
		case i > 0 && (strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "|--:")):
			tables = append(tables, Table{Head: lines[i-1], HeldBy: held})
		case i > 0 && len(tables) > 0 && strings.HasPrefix(line, "|") && strings.HasPrefix(lines[i-1], "|"):
			last := &tables[len(tables)-1]
			last.Rows = append(last.Rows, cells(line))
		case indented.MatchString(line):
			return nil, nil, fmt.Errorf("%s:%d: indented code: use a fence", page, i+1)
		}
		named, file = "", ""
		if found := runBy.FindStringSubmatch(line); found != nil {
			named = found[1]
		}
		if found := heldBy.FindStringSubmatch(line); found != nil && !open {
			held = found[1]
		} else if !open && strings.HasPrefix(line, "#") {
			held = ""
		}
		if found := from.FindStringSubmatch(line); found != nil {
			file = found[1]
		}
	}
	if open {
		return nil, nil, fmt.Errorf("%s: the last fence is not closed", page)
	}
	return blocks, tables, nil
}

func cells(line string) []string {
	all := strings.Split(strings.Trim(line, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
