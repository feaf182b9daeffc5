// SPDX-License-Identifier: Apache-2.0

// Package assets holds the files for browsers, each under a plain name and under one that changes with the
// content of all.
//
// The sources lie here and in package pow, to be read. "go generate" minifies and compresses each by itself, and the texts
// of all languages but English together: a program would have to link what compresses, and that weighs more than the
// files. A test makes them anew. Tests with a browser run what is served. Files are not joined into one: pages, workers and
// scripts import different parts of them. Brotli is not offered: it saves an eighth, once for each version, and costs a
// second copy of each file in every program.
package assets

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tallystick/tallystick/middleware/internal/httpfield"
)

//go:generate go test -run ^TestServedAreTheSourcesMinified$ . -update

//go:embed gzip
var gzipped embed.FS

// languages is the last of the files, and the only one that is not served. It has lines, each the name of a file, a
// space, and the script with the texts of that language.
const languages = "languages"

// A File is a file for browsers.
type File struct {
	name       string
	compressed string        // or ""
	plain      func() string // made when it is first asked for: browsers never ask
}

// files are the files and their version: the folder of their pinned URLs, which changes with the content of each.
var files = sync.OnceValues(func() (all []File, version string) {
	sum := sha256.New()
	for _, name := range [...]string{"tally.js", "fetch.js", "texts.js", "solver.js", "tally.css", "page.js", "page.css", languages} {
		compressed, err := gzipped.ReadFile("gzip/" + name + ".gz")
		if err != nil {
			panic("assets: " + err.Error()) // a test has read them all
		}
		sum.Write(compressed)
		f := File{name: name, compressed: string(compressed)}
		f.plain = sync.OnceValue(f.decompress)
		all = append(all, f)
	}
	return all, hex.EncodeToString(sum.Sum(nil)[:8])
})

func (f File) decompress() string {
	var plain strings.Builder
	r, err := gzip.NewReader(strings.NewReader(f.compressed))
	if err == nil {
		_, err = io.Copy(&plain, r)
	}
	if err != nil {
		panic("assets: " + f.name + ": " + err.Error()) // a test has read them all
	}
	return plain.String()
}

// Pinned returns the name of a file that changes with its content. Scripts import each other by relative names, so those
// in the folder of a version import what never changes, and a copy of the files works wherever it lies.
func Pinned(name string) string {
	_, version := files()
	return version + "/" + name
}

// Find returns the file of a name, plain or pinned, and whether it may be kept for ever. A name of
// another version may not: while instances of both serve, their pages get the file all the same,
// if not the very same.
func Find(name string) (f *File, exact bool) {
	all, version := files()
	folder, plain, pinned := strings.Cut(name, "/")
	if !pinned {
		plain = name
	} else if len(folder) != len(version) || strings.Trim(folder, "0123456789abcdef") != "" {
		return nil, false
	}
	exact = folder == version
	served, texts := all[:len(all)-1], all[len(all)-1]
	for i := range served {
		if served[i].name == plain {
			return &served[i], exact
		}
	}
	if !strings.HasPrefix(plain, "texts-") {
		return nil, false
	}
	// Texts of a language are served as they are: compressed one by one they would save a browser 400 bytes, and cost
	// every program 2 KB. No name finds a part of a text.
	_, text, found := strings.Cut(texts.plain(), "\n"+plain+" export ")
	if !found {
		return nil, false
	}
	text, _, _ = strings.Cut("export "+text, "\n")
	return &File{plain, "", func() string { return text }}, exact
}

// Serve answers a GET or HEAD, with 304 where the client has the same already.
func (f *File) Serve(w http.ResponseWriter, r *http.Request, exact bool) {
	h := w.Header()
	contentType := "text/javascript; charset=utf-8"
	if strings.HasSuffix(f.name, ".css") {
		contentType = "text/css; charset=utf-8"
	}
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
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
	// A sandboxed frame has no origin, and its modules come by CORS. Without this the element could not
	// say there why nothing can be sent. The files are the same for everybody.
	if h.Get("Access-Control-Allow-Origin") == "" {
		h.Set("Access-Control-Allow-Origin", "*")
	}
	h.Add("Vary", "Accept-Encoding")
	_, version := files()
	var body string
	if f.compressed != "" && httpfield.AcceptsGzip(r.Header["Accept-Encoding"]) {
		body = f.compressed
		h.Set("Etag", `"`+version+`"`)
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(body))) // ServeContent leaves it out, lest a proxy compresses
	} else {
		body = f.plain()
		h.Set("Etag", `"`+version+`-plain"`) // RFC 9110, section 8.8.3.3: two encodings, two tags
	}
	http.ServeContent(w, asked(r), "", time.Time{}, strings.NewReader(body))
}

// longestCondition has room for one range, or for some entity tags.
const longestCondition = 256

// asked returns r, as far as [http.ServeContent] may read it. 16 KB of ranges of one byte each
// would be answered with 600 KB; a client that asks for several may be sent the whole (RFC 9110,
// section 14.2).
func asked(r *http.Request) *http.Request {
	for _, name := range [...]string{"If-Match", "If-None-Match", "If-Range", "Range"} {
		if v := r.Header.Get(name); len(v) > longestCondition || name == "Range" && strings.Contains(v, ",") {
			return &http.Request{Method: r.Method}
		}
	}
	return r
}
