// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// A Table is one that a page prints.
type Table struct {
	Name string
	Page string // from the root of the repository
	Head []string
	Rows []Row

	// Words says that no column is of numbers, which stand to the right.
	Words bool

	// Alone says that a row takes up to a gigabyte, and is made while no other is.
	Alone bool
}

// A Row is quick if every run of the tests makes it.
type Row struct {
	Quick bool
	Make  func() []string
}

// Line is a row as a page prints it.
func Line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Top is the first two lines of a table. Columns after the first stand to the right.
func (t *Table) Top() string {
	marks := make([]string, len(t.Head))
	for i := range marks {
		marks[i] = "--:"
		if t.Words {
			marks[i] = "---"
		}
	}
	marks[0] = "---"
	return Line(t.Head) + "|" + strings.Join(marks, "|") + "|\n"
}

// Text makes all rows, as many at a time as there are processors, or as there is memory for.
func (t *Table) Text() string {
	lines, together := make([]string, len(t.Rows)), runtime.GOMAXPROCS(0)
	if t.Alone {
		together = 1
	}
	var (
		group sync.WaitGroup
		free  = make(chan struct{}, together)
	)
	for i, r := range t.Rows {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			lines[i] = Line(r.Make())
		})
	}
	group.Wait()
	return t.Top() + strings.Join(lines, "")
}

// Each table of a page stands between two lines.
func (t *Table) begin() string { return "<!-- made by: make bounds; table: " + t.Name + " -->\n" }

const end = "<!-- end of what is made -->\n"

// On returns the table as the page prints it, and where that begins and ends.
func (t *Table) On(page []byte) (text string, from, to int, err error) {
	from = bytes.Index(page, []byte(t.begin()))
	if from < 0 {
		return "", 0, 0, fmt.Errorf("bounds: %s has no line %s", t.Page, t.begin())
	}
	from += len(t.begin())
	size := bytes.Index(page[from:], []byte(end))
	if size < 0 {
		return "", 0, 0, fmt.Errorf("bounds: the table %s of %s has no end", t.Name, t.Page)
	}
	return string(page[from : from+size]), from, from + size, nil
}

// Put replaces the table of the page.
func (t *Table) Put(page []byte, text string) ([]byte, error) {
	_, from, to, err := t.On(page)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{page[:from], []byte(text), page[to:]}, nil), nil
}

// figure writes a number with a comma at each thousand.
func figure(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", figure(n/1000), n%1000)
}
