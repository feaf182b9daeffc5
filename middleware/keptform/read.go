// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/tallystick/tallystick/middleware/internal/page"
)

// A formKind says whether a form can be kept, by how it was sent.
type formKind string

// The kinds of forms. Only the first is kept.
const (
	noForm     formKind = ""
	urlEncoded formKind = "application/x-www-form-urlencoded"
	multipart  formKind = "multipart/form-data"
)

// longestType has room for a boundary, which has 70 characters at most (RFC 2046, section 5.1.1).
const longestType = 256

// kindOf returns how the form was sent that r submits; noForm if r is something else,
// such as a script's own request.
func kindOf(r *http.Request) formKind {
	if r.Method != http.MethodPost || !page.Navigates(r) {
		return noForm
	}
	lines := r.Header["Content-Type"]
	if len(lines) != 1 || len(lines[0]) > longestType {
		return noForm
	}
	mediaType, _, _ := mime.ParseMediaType(lines[0]) // a bad parameter is none of a browser's
	if kind := formKind(mediaType); kind == urlEncoded || kind == multipart {
		return kind
	}
	return noForm
}

// longestOrigin has room for a host's name, a scheme and a port.
const longestOrigin = 512

// fromSameOrigin reports whether a page of this very origin has sent r. It is stricter
// than http.CrossOriginProtection, which lets pass what may well be no browser's: here,
// a sender that cannot be told is a stranger. Sec-Fetch-Site cannot be set by scripts
// and is right behind any proxy; browsers leave it out over plain HTTP.
func fromSameOrigin(r *http.Request) bool {
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 {
		return len(site) == 1 && site[0] == "same-origin"
	}
	origin := r.Header["Origin"]
	if len(origin) != 1 || len(origin[0]) > longestOrigin {
		return false
	}
	u, err := url.Parse(origin[0])
	return err == nil && u.Host != "" && u.Host == r.Host && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

// A why is why a form cannot be kept.
type why uint8

const (
	isKept why = iota
	whyKind
	whyLong
	whyStrange
)

// read reads the body of a form, or says why not.
func read(w http.ResponseWriter, r *http.Request, kind formKind, maxBody int64) ([]byte, why) {
	if kind != urlEncoded {
		return nil, whyKind
	}
	_, parameters, err := mime.ParseMediaType(r.Header["Content-Type"][0])
	charset, named := parameters["charset"]
	if err != nil || named && !strings.EqualFold(charset, "utf-8") || len(r.Header["Content-Encoding"]) > 0 {
		return nil, whyStrange
	}
	if r.PostForm != nil || r.MultipartForm != nil {
		return nil, whyStrange // the body is gone, and the order of its fields
	}
	if r.ContentLength > maxBody {
		return nil, whyLong
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, whyLong
	}
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		return nil, whyStrange
	}
	return body, isKept
}

// maxBack is how long a path to go back to may be.
const maxBack = 2048

// backOf returns the path of the page that has sent r, if that is of the same origin and
// known; it is the browser that says so. No path begins like a host's name.
func backOf(r *http.Request) string {
	referer := r.Referer()
	if len(referer) > 2*maxBack { // to parse that takes as long as it is
		return ""
	}
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" || u.Host != r.Host || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	path := u.RequestURI()
	if len(path) > maxBack || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, "\\") {
		return ""
	}
	return path
}
