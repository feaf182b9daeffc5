// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Command banned counts constructions that plain English avoids: in comments and strings of Go files,
// in Markdown, and in scripts. "banned DIRECTORY [PATH...]" prints a line for each construction, and the sum last.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A pattern is right nearly always: the rest costs a word.
var banned = []string{
	`\b(no|some|any)body\b`,
	`\bwhoever\b`,
	`\b(that|those) of\b`,
	`\bof (which|whom|whose)\b`,
	`\ban? [\w-]+ is (what|who|one that|one who|that which)\b`,
	`\b(of|to|for|from|by|with|and|or|than|that|those|one|all|but|only|are|while|where|what|as) who \w+`,
	`\bso (many|much|long)\b`,
	`\bat the (most|least)\b`,
	`[.:;(] who [b-hj-z]\w+`, // "Who is asking?" and "who asks" are questions
}

// plain are the other files that people read.
var plain = regexp.MustCompile(`(\.(md|lua|sh|yml)|^Makefile|^\.ci/\w+|/testdata/mutants/\w+\.json|^(demo|middleware|pow)/.*[a-z]\.js)$`)

func main() {
	git := exec.Command("git", append([]string{"ls-files", "--"}, os.Args[2:]...)...)
	git.Dir = os.Args[1]
	files, err := git.Output()
	if err != nil {
		log.Fatal(err)
	}
	counts, all := make([]int, len(banned)), 0
	for name := range strings.FieldsSeq(string(files)) {
		text, err := os.ReadFile(filepath.Join(os.Args[1], name))
		switch {
		case err != nil:
			log.Fatal(err)
		case strings.HasSuffix(name, ".go"):
			text = prose(text, strings.HasSuffix(name, "_test.go"))
		case !plain.MatchString(name):
			continue
		}
		text = regexp.MustCompile(`\s+`).ReplaceAll(text, []byte(" ")) // a construction may go over two lines
		for i, pattern := range banned {
			n := len(regexp.MustCompile(`(?i)`+pattern).FindAll(text, -1))
			counts[i], all = counts[i]+n, all+n
		}
	}
	for i, pattern := range banned {
		fmt.Println(counts[i], pattern)
	}
	fmt.Println(all)
}

// prose returns the comments of a Go file and, of one that is no test, its strings.
func prose(source []byte, test bool) (text []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, scanner.ScanComments)
	for {
		switch _, kind, literal := s.Scan(); {
		case kind == token.EOF:
			return text
		case kind == token.COMMENT, kind == token.STRING && !test:
			text = append(append(text, strings.TrimLeft(literal, `/"`+"`")...), '\n')
		}
	}
}
