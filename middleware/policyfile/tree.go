// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// A node is a JSON value: nil, a bool, a json.Number, a string, a []node or a []member. The
// members of an object are a list, so that a duplicate name is found, which encoding/json
// would hide.
type node struct {
	value any
	line  int
}

type member struct {
	name string
	node
}

// mostLevels is deeper than any configuration, and a small stack.
const mostLevels = 12

var errDeep = errors.New("too many levels")

// A treeReader reads JSON and counts its lines.
type treeReader struct {
	text    []byte
	decoder *json.Decoder
	line    int
	counted int64 // the bytes whose lines are in line
}

// parse returns the one value that text holds. The error is about what is no JSON; then the
// node has the line where that is.
func parse(text []byte) (node, error) {
	r := treeReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.decoder.UseNumber()
	if isMarked(text) {
		return node{line: 1}, errors.New(beginsMarked)
	}
	if !utf8.Valid(text) { // it would be read as something else than it is
		return node{line: 1}, errors.New("must be UTF-8")
	}
	root, err := r.value(0)
	if err == nil {
		rest := bytes.TrimLeft(text[r.decoder.InputOffset():], " \t\r\n")
		if len(rest) == 0 {
			return root, nil
		}
		r.countTo(int64(len(text) - len(rest)))
		err = errors.New("there is more after the end")
	}
	err = r.explain(err)
	return node{line: r.line}, err
}

func (r *treeReader) value(level int) (node, error) {
	t, err := r.token()
	if err != nil {
		return node{}, err
	}
	n := node{value: t, line: r.line}
	if level == mostLevels && (t == json.Delim('{') || t == json.Delim('[')) {
		return node{}, errDeep
	}
	switch t {
	case json.Delim('{'):
		members := []member{}
		for r.decoder.More() {
			name, err := r.token()
			if err != nil {
				return node{}, err
			}
			v, err := r.value(level + 1)
			if err != nil {
				return node{}, err
			}
			members = append(members, member{name.(string), v}) // the decoder takes nothing else there
		}
		n.value = members
		_, err = r.token()
	case json.Delim('['):
		elements := []node{}
		for r.decoder.More() {
			v, err := r.value(level + 1)
			if err != nil {
				return node{}, err
			}
			elements = append(elements, v)
		}
		n.value = elements
		_, err = r.token()
	}
	return n, err
}

// token returns the next token, and sets line to where it ends, which is where it begins: no
// token has more lines than one.
func (r *treeReader) token() (json.Token, error) {
	t, err := r.decoder.Token()
	r.countTo(r.decoder.InputOffset())
	return t, err
}

func (r *treeReader) countTo(offset int64) {
	offset = min(offset, int64(len(r.text)))
	if offset > r.counted {
		r.line += bytes.Count(r.text[r.counted:offset], []byte("\n"))
		r.counted = offset
	}
}

// explain describes a syntax error, and sets line to its place.
func (r *treeReader) explain(err error) error {
	var wrong *json.SyntaxError
	isSyntax := errors.As(err, &wrong)
	// From Go 1.27 on, what ends too early is a SyntaxError that only its text tells from others.
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isSyntax && wrong.Error() == "unexpected end of JSON input" {
		r.countTo(int64(len(r.text)))
		return errors.New("ends too early; it must be one JSON object")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if isSyntax {
		r.countTo(wrong.Offset)
		text = "must be JSON: " + text
	}
	if begins := bytes.TrimLeft(r.text, " \t\r\n"); isSyntax && begins[0] != '{' {
		return errors.New("must be JSON, one object that begins with {")
	}
	return errors.New(text)
}

// kind names what a value is, for people.
func (n node) kind() string {
	switch n.value.(type) {
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []node:
		return "a list"
	case []member:
		return "an object"
	}
	return "null"
}
