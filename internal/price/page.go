// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Each table of the page stands between two lines.
func begin(name string) string {
	return "<!-- made by: go run ./internal/price -update; table: " + name + " -->\n"
}

const end = "<!-- end of what is made -->\n"

// printed takes the table of that name from the page, and says where it is.
func printed(page []byte, name string) (text string, from, to int, err error) {
	from = bytes.Index(page, []byte(begin(name)))
	if from < 0 {
		return "", 0, 0, fmt.Errorf("price: the page has no line %s", begin(name))
	}
	from += len(begin(name))
	size := bytes.Index(page[from:], []byte(end))
	if size < 0 {
		return "", 0, 0, fmt.Errorf("price: the table %s of the page has no end", name)
	}
	return string(page[from : from+size]), from, from + size, nil
}

// put replaces a table of the page.
func put(page []byte, name, text string) ([]byte, error) {
	_, from, to, err := printed(page, name)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{page[:from], []byte(text), page[to:]}, nil), nil
}

// text makes all rows, as many at a time as there are processors.
func (t *table) text() string {
	lines := make([]string, len(t.rows))
	var (
		group sync.WaitGroup
		free  = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	for i, r := range t.rows {
		group.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			lines[i] = line(r.make())
		})
	}
	group.Wait()
	return t.top() + strings.Join(lines, "")
}
