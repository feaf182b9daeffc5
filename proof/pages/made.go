// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"bytes"
	"flag"
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
	Name, Page string // the page from the root of the repository; "" if it is only printed
	By         string // the command that makes it
	Lead       string // a text before the table; "" for none
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

// Add adds a row of Cells.
func (t *Made) Add(quick bool, make func() []any) {
	t.Rows = append(t.Rows, Row{quick, func() []string { return Cells(make()...) }})
}

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
	if t.Lead != "" {
		return "\n" + t.Lead + "\n\n" + markdown(t.Head, t.Words, rows) + "\n"
	}
	return markdown(t.Head, t.Words, rows)
}

// markdown writes a table. If not all of it is words, the columns after the first stand to the right.
func markdown(head []string, words bool, rows [][]string) string {
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

// Cells are numbers with a comma at each thousand, and whatever else is, as fmt writes it.
func Cells(all ...any) (cells []string) {
	for _, one := range all {
		switch n := one.(type) {
		case int:
			cells = append(cells, Figure(int64(n)))
		case int64:
			cells = append(cells, Figure(n))
		default:
			cells = append(cells, fmt.Sprint(one))
		}
	}
	return cells
}

// Between returns where the text of a page begins and ends that stands between two lines.
func Between(page []byte, begin, end string) (from, to int, err error) {
	before, rest, found := bytes.Cut(page, []byte(begin+"\n"))
	size := bytes.Index(rest, []byte(end+"\n"))
	if !found || size < 0 {
		return 0, 0, fmt.Errorf("the page has no line %s, or it has no end", begin)
	}
	from = len(before) + len(begin) + 1
	return from, from + size, nil
}

// On reads the page of the table below root, and returns where on it the table is.
func (t *Made) On(root string) (page []byte, from, to int, err error) {
	if page, err = os.ReadFile(filepath.Join(root, t.Page)); err != nil {
		return nil, 0, 0, err
	}
	from, to, err = Between(page, "<!-- made by: "+t.By+"; table: "+t.Name+" -->", "<!-- end of what is made -->")
	return page, from, to, err
}

// Compare makes the wanted rows anew. It says which of them, or what else of the table, is another one on the page
// below root.
func (t *Made) Compare(root string, wanted func(i int) bool) error {
	page, from, to, err := t.On(root)
	if err != nil {
		return err
	}
	rows, found := strings.CutPrefix(string(page[from:to]), markdown(t.Head, t.Words, nil))
	lines := strings.SplitAfter(rows, "\n")
	if !found || len(lines) != len(t.Rows)+1 {
		return fmt.Errorf("the head or the number of rows is old: %s", t.By)
	}
	for i, r := range t.Rows {
		if !wanted(i) {
			continue
		}
		if made := line(r.Make()); made != lines[i] {
			return fmt.Errorf("%s\nthe page has\n%snow it is\n%s", t.By, lines[i], made)
		}
	}
	return nil
}

// Print makes tables, only the named ones if there are names, and prints them. Into the repository below root, if
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
		made := t.Text()
		fmt.Fprintf(out, "%s, %s\n%s\n", strings.TrimPrefix(t.Page+": "+t.Name, ": "), time.Since(began).Round(time.Millisecond), made)
		if root == "" || t.Page == "" {
			continue
		}
		page, from, to, err := t.On(root)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, t.Page), slices.Concat(page[:from], []byte(made), page[to:]), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.Page, err)
		}
	}
	return nil
}

// Run is a verb of a program that makes tables: it reads its arguments by flags, to which it adds its own. There is
// nothing that it could find not to be kept.
func Run(flags *flag.FlagSet, args []string, stdout, stderr io.Writer, tables func() []Made) (held bool, err error) {
	root := flags.String("update", "", "write the tables into the pages of the repository in this `directory`")
	var only []string
	flags.Func("only", "the `names` of the tables to make, with commas", func(names string) error {
		only = strings.Split(names, ",")
		return nil
	})
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	err = Print(stdout, tables(), only, *root)
	return err == nil, err
}
