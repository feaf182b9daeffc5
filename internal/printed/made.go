// SPDX-License-Identifier: Apache-2.0

package printed

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Made is a table of a page that a program makes, between two lines that say so.
type Made struct {
	Name, Page string // the page from the root of the repository
	By         string // the command that makes it
	Head       []string
	Rows       []Row
	Words      bool // no column is of numbers, which stand to the right
	Alone      bool // a row takes up to a gigabyte, and is made while no other is
}

// A Row is quick if every run of the tests makes it.
type Row struct {
	Quick bool
	Make  func() []string
}

// Add adds a row.
func (t *Made) Add(quick bool, make func() []string) { t.Rows = append(t.Rows, Row{quick, make}) }

// Text makes all rows, as many at a time as there are processors, or as there is memory for.
func (t *Made) Text() string {
	rows, together := make([][]string, len(t.Rows)), runtime.GOMAXPROCS(0)
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
			rows[i] = r.Make()
		})
	}
	group.Wait()
	return Markdown(t.Head, t.Words, rows)
}

// Markdown writes a table. If not all of it is words, the columns after the first stand to the right.
func Markdown(head []string, words bool, rows [][]string) string {
	marks := slices.Repeat([]string{"--:"}, len(head))
	if words {
		marks = slices.Repeat([]string{"---"}, len(head))
	}
	marks[0] = "---"
	text := line(head) + "|" + strings.Join(marks, "|") + "|\n"
	for _, cells := range rows {
		text += line(cells)
	}
	return text
}

func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// Figure writes a number with a comma at each thousand.
func Figure(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Figure(n/1000), n%1000)
}

// Between returns where the text of a page begins and ends that stands between two lines.
func Between(page []byte, begin, end string) (from, to int, err error) {
	_, rest, found := bytes.Cut(page, []byte(begin+"\n"))
	if !found {
		return 0, 0, fmt.Errorf("the page has no line %s", begin)
	}
	from = len(page) - len(rest)
	size := bytes.Index(rest, []byte(end+"\n"))
	if size < 0 {
		return 0, 0, fmt.Errorf("what begins with the line %s has no end", begin)
	}
	return from, from + size, nil
}

// on returns where the table is on its page.
func (t *Made) on(page []byte) (from, to int, err error) {
	from, to, err = Between(page, "<!-- made by: "+t.By+"; table: "+t.Name+" -->", "<!-- end of what is made -->")
	if err != nil {
		err = fmt.Errorf("%s: %w", t.Page, err)
	}
	return from, to, err
}

// Put returns the page with another text of the table.
func (t *Made) Put(page []byte, text string) ([]byte, error) {
	from, to, err := t.on(page)
	if err != nil {
		return nil, err
	}
	return slices.Concat(page[:from], []byte(text), page[to:]), nil
}

// Compare makes the wanted rows anew. It says which of them, or what else of the table, is another one on the page.
func (t *Made) Compare(page []byte, wanted func(i int) bool) error {
	from, to, err := t.on(page)
	if err != nil {
		return err
	}
	rows, found := strings.CutPrefix(string(page[from:to]), Markdown(t.Head, t.Words, nil))
	lines := strings.SplitAfter(rows, "\n")
	if !found || len(lines) != len(t.Rows)+1 {
		return fmt.Errorf("%s: the head or the number of rows is old; %s", t.Name, t.By)
	}
	for i, r := range t.Rows {
		if !wanted(i) {
			continue
		}
		if made := line(r.Make()); made != lines[i] {
			return fmt.Errorf("%s: %s\nthe page has\n%snow it is\n%s", t.Name, t.By, lines[i], made)
		}
	}
	return nil
}

// Print makes tables, those of these names if there are any, and prints them. Into the repository below root, if
// that is not "", it writes them too.
func Print(out io.Writer, tables []Made, names []string, root string) error {
	for _, name := range names {
		if !slices.ContainsFunc(tables, func(t Made) bool { return t.Name == name }) {
			return fmt.Errorf("no table is called %s", name)
		}
	}
	for _, t := range tables {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		began := time.Now()
		text := t.Text()
		fmt.Fprintf(out, "%s: %s, %s\n%s\n", t.Page, t.Name, time.Since(began).Round(time.Millisecond), text)
		if root == "" {
			continue
		}
		file := filepath.Join(root, t.Page)
		page, err := os.ReadFile(file)
		if err == nil {
			page, err = t.Put(page, text)
		}
		if err == nil {
			err = os.WriteFile(file, page, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
