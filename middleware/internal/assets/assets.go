// SPDX-License-Identifier: Apache-2.0

// Package assets holds the files for browsers: the sources, byte for byte, each under a
// plain name and under one that changes with the content.
//
// Nothing is minified. Compression takes most of what a minifier would, and what was
// tested, and can be read, is what runs.
package assets

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/pow"
)

//go:embed tally.js
var tallyJS string

//go:embed fetch.js
var fetchJS string

//go:embed texts.js
var textsJS string

//go:embed tally.css
var tallyCSS string

//go:embed page.js
var pageJS string

//go:embed page.css
var pageCSS string

// A File is a file for browsers.
type File struct {
	name, extension string
	contentType     string
	body            string
	hash            string // of the body, as part of a URL
	plain           *File  // what stands under the plain name, where that differs
}

func newFile(name, extension, contentType, body string) *File {
	sum := sha256.Sum256([]byte(body))
	return &File{name: name, extension: extension, contentType: contentType, body: body, hash: hex.EncodeToString(sum[:8])}
}

// newScript returns a module that imports others.
//
// Only their names differ between its two versions. Under the plain name it imports
// plain names, so that a copy of the files works wherever it lies. Under the other it
// never changes, and so may import only what never changes.
func newScript(name, body string, imports ...*File) *File {
	const contentType = "text/javascript; charset=utf-8"
	pinned := body
	for _, file := range imports {
		pinned = strings.ReplaceAll(pinned, ` from "./`+file.name+`.js";`, ` from "./`+file.pinned()+`";`)
	}
	script := newFile(name, ".js", contentType, pinned)
	script.plain = newFile(name, ".js", contentType, body)
	return script
}

// pinned is the name that changes with the content.
func (a *File) pinned() string { return a.name + "." + a.hash + a.extension }

// A Set is the files of one policy.
type Set struct {
	script, style, pageScript, pageStyle *File
	files                                []*File
}

// NewSet returns the files.
func NewSet() *Set {
	const css = "text/css; charset=utf-8"
	solver, texts := newScript("solver", pow.SolverJS()), newScript("texts", textsJS)
	fetch := newScript("fetch", fetchJS, solver)
	script := newScript("tally", tallyJS, solver, fetch, texts)
	all := &Set{script: script, style: newFile("tally", ".css", css, tallyCSS), pageScript: newScript("page", pageJS), pageStyle: newFile("page", ".css", css, pageCSS)}
	all.files = []*File{script, fetch, texts, solver, all.style, all.pageScript, all.pageStyle}
	return all
}

// Script returns the name of the script that changes with its content.
func (all *Set) Script() string { return all.script.pinned() }

// Style returns the name of the style sheet that changes with its content.
func (all *Set) Style() string { return all.style.pinned() }

// PageScript returns the name of the script of a page that opens the one that was asked for.
func (all *Set) PageScript() string { return all.pageScript.pinned() }

// PageStyle returns the name of the style sheet of the pages in place of others.
func (all *Set) PageStyle() string { return all.pageStyle.pinned() }

// Find returns the file of a file name, plain or with a hash, and whether the
// hash is the file's. One that is not is of another version: while instances of
// both serve, their pages get the script all the same, if not the very same.
func (all *Set) Find(file string) (a *File, exact bool) {
	for _, a := range all.files {
		hash, ok := strings.CutSuffix(file, a.extension)
		if ok {
			hash, ok = strings.CutPrefix(hash, a.name)
		}
		switch {
		case !ok:
		case hash == "" && a.plain != nil:
			return a.plain, false
		case hash == "":
			return a, false
		case len(hash) == 1+len(a.hash) && hash[0] == '.' && strings.Trim(hash[1:], "0123456789abcdef") == "":
			return a, hash[1:] == a.hash
		}
	}
	return nil, false
}

// Serve answers a GET or HEAD, with 304 where the client has the same already.
func (a *File) Serve(w http.ResponseWriter, r *http.Request, exact bool) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Etag", `"`+a.hash+`"`)
	if exact {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	// A worker lives under the policy of its own response, not of the page: the
	// solver needs nothing. And a page that isolates itself starts only workers
	// that do.
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	http.ServeContent(w, asked(r), "", time.Time{}, strings.NewReader(a.body))
}

// longestCondition has room for one range, or for some entity tags.
const longestCondition = 256

// asked returns r, as far as [http.ServeContent] may read it. 16 KB of ranges of one byte each
// would be answered with 600 KB; who asks for several may be sent the whole (RFC 9110,
// section 14.2).
func asked(r *http.Request) *http.Request {
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Range", "Range"} {
		if v := r.Header.Get(name); len(v) > longestCondition || name == "Range" && strings.Contains(v, ",") {
			return &http.Request{Method: r.Method}
		}
	}
	return r
}
