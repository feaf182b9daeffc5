// SPDX-License-Identifier: Apache-2.0

// Package markdown writes tables.
package markdown

import "strings"

// A Table is a Markdown section with a table under construction.
type Table struct {
	b       strings.Builder
	columns int
}

// New returns a table with the given columns, the first aligned to the left and
// the others to the right, after a title and a text; "" is none.
func New(title, text string, columns ...string) *Table {
	t := &Table{columns: len(columns)}
	if title != "" {
		t.b.WriteString("## " + title + "\n\n")
	}
	if text != "" {
		t.b.WriteString(text + "\n\n")
	}
	t.Row(columns...)
	t.b.WriteString("|---|" + strings.Repeat("--:|", len(columns)-1) + "\n")
	return t
}

// Row adds a row; cells that are not given are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, t.columns)
	copy(row, cells)
	t.b.WriteString("| " + strings.Join(row, " | ") + " |\n")
}

// String returns the section.
func (t *Table) String() string { return t.b.String() }
