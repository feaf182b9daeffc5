// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Secrets splits the text of a file or environment variable into secrets, as [Open] does. Each
// line is one secret, character by character. Nothing is decoded: two machines that guess
// differently between base64, hex and text would share no secret, and derived keys do not need
// it. The first signs, all verify. Space around a line, empty lines, and lines that begin with
// "#" are skipped. Random bytes, as from "openssl rand 32", are one secret. A text with a byte
// order mark has none: the mark would change the first. middleware.New reports short and
// repeated secrets.
func Secrets(text []byte) [][]byte {
	if isMarked(text) {
		return nil
	}
	if !isText(text) {
		return [][]byte{bytes.Clone(text)}
	}
	var secrets [][]byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			secrets = append(secrets, bytes.Clone(line))
		}
	}
	return secrets
}

// isText tells lines from random bytes, which look like text once in more than 10¹⁰ times.
func isText(text []byte) bool {
	return utf8.Valid(text) && !bytes.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// A secretReader reads what keys name, each once: all policies of a file that have the same
// source get the same ring.
type secretReader struct {
	*problems
	folder string // of the policy file
	rings  map[string][][]byte
	from   map[string]string // what each ring was read from
	open   []string          // paths of the files that all users may read
}

// read returns the secrets that keys, at path, name, or nil after a problem. A
// problem shows a useless name or path only if it is shorter than a secret: it
// may be one in the wrong place. The folder of a relative path is not in the
// file, and is told.
func (s *secretReader) read(keys *secretKeys, path string) [][]byte {
	if ring, ok := s.rings[path]; ok {
		return ring
	}
	var ring [][]byte
	if keys.Env != nil {
		ring = s.readEnv(*keys.Env, path+".env")
	} else {
		ring = s.readFile(*keys.File, path+".file")
	}
	s.rings[path] = ring
	return ring
}

func (s *secretReader) readEnv(name, path string) [][]byte {
	text, there := os.LookupEnv(name)
	ring := Secrets([]byte(text))
	switch {
	case !there:
		s.add(path, "names an environment variable that is not set")
	case isMarked([]byte(text)):
		s.add(path, "names an environment variable whose text "+beginsMarked)
	case len(ring) == 0:
		s.add(path, "names an environment variable that holds no secret")
	}
	s.from[strings.TrimSuffix(path, ".env")] = "the variable " + name
	return ring
}

func (s *secretReader) readFile(name, path string) [][]byte {
	in, missing, there := "", told(name), strconv.Quote(name)
	if missing != "" {
		missing += " "
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.folder, name)
		if folder, err := filepath.Abs(s.folder); err == nil {
			in = " in " + folder
		}
	}
	text, mode, err := readBounded(name, mostSecrets)
	var cause *fs.PathError
	switch {
	case errors.As(err, &cause):
		s.add(path, "%scannot be read%s: %s", missing, in, cause.Err)
		return nil
	case err != nil:
		s.add(path, "%s %s", there, err)
		return nil
	}
	s.from[strings.TrimSuffix(path, ".file")] = there
	if runtime.GOOS != "windows" { // which has no such bits
		switch {
		case mode.Perm()&0o002 != 0:
			s.add(path, "%s may be written by everybody on this machine, who could sign tokens of their own; take that right away, as chmod 0400 does", there)
			return nil
		case mode.Perm()&0o004 != 0:
			s.open = append(s.open, path)
		}
	}
	if isMarked(text) {
		s.add(path, "%s %s", there, beginsMarked)
		return nil
	}
	ring := Secrets(text)
	if len(ring) == 0 {
		s.add(path, "%s holds no secret", there)
	}
	return ring
}

// beginsMarked is what is wrong where isMarked.
const beginsMarked = "begins with a byte order mark, which some editors write: save it as UTF-8 without one"

// isMarked reports whether a text begins with a byte order mark. The mark would become part of
// the first secret, which then differs from instances whose file has none. Random bytes may begin
// so: they are no text, and not every other byte is 0, as in UTF-16.
func isMarked(text []byte) bool {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return isText(text)
	}
	wide := bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
	return wide && bytes.Count(text, []byte{0}) >= (len(text)-2)/2
}

// The most that is read of a file. A configuration of 10,000 tiers fits; a larger file is
// another kind.
const (
	mostText    = 4 << 20
	mostSecrets = 64 << 10
)

var (
	errLarge   = errors.New("is too large to be what it should be")
	errNotFile = errors.New("not a regular file")
)

// readBounded returns the content of a regular file of at most most bytes, and its mode. It
// checks the open file: a name may stand for another file a moment later. Without O_NONBLOCK,
// which regular files ignore, opening a FIFO would wait for a writer for ever.
func readBounded(name string, most int64) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &fs.PathError{Op: "read", Path: name, Err: errNotFile}
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = errLarge
	}
	return text, info.Mode(), err
}
