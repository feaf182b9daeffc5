// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// A FormKind says whether a form can be kept, by how it was sent.
type FormKind string

// The kinds of forms. Only those of the first are kept.
const (
	NoForm     FormKind = ""
	URLEncoded FormKind = "application/x-www-form-urlencoded"
	Multipart  FormKind = "multipart/form-data"
)

// longestType has room for a boundary, which has 70 characters at most (RFC 2046, section 5.1.1).
const longestType = 256

// KindOf returns how the form was sent that r submits; NoForm if r is something else,
// such as a script's own request.
func KindOf(r *http.Request) FormKind {
	if r.Method != http.MethodPost || !Navigates(r) {
		return NoForm
	}
	lines := r.Header["Content-Type"]
	if len(lines) != 1 || len(lines[0]) > longestType {
		return NoForm
	}
	mediaType, _, _ := mime.ParseMediaType(lines[0]) // a bad parameter is none of a browser's
	if kind := FormKind(mediaType); kind == URLEncoded || kind == Multipart {
		return kind
	}
	return NoForm
}

// longestOrigin has room for a host's name, a scheme and a port.
const longestOrigin = 512

// FromSameOrigin reports whether a page of this very origin has sent r. It is stricter
// than http.CrossOriginProtection, which lets pass what may well be no browser's: here,
// a sender that cannot be told is a stranger. Sec-Fetch-Site cannot be set by scripts
// and is right behind any proxy; browsers leave it out over plain HTTP.
func FromSameOrigin(r *http.Request) bool {
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

// A KeptForm is a form that was refused, or why it is not kept.
type KeptForm struct {
	request  *http.Request
	body     []byte
	isSecret func(name string) bool
	why      why
	words    *words
	back     string // the path of the page that has sent it; "": not known
}

// Keep reads the form that r submits from its body, up to maxBody bytes. Fields whose
// names say that they are secret are kept without their value, and so are those for
// which isSecret, if not nil, reports true.
func Keep(w http.ResponseWriter, r *http.Request, kind FormKind, maxBody int64, isSecret func(name string) bool) KeptForm {
	body, why := read(w, r, kind, maxBody)
	return KeptForm{r, body, isSecret, why, wordsFor(w.Header(), r), backOf(r)}
}

// read reads the body of a form, or says why not.
func read(w http.ResponseWriter, r *http.Request, kind FormKind, maxBody int64) ([]byte, why) {
	if kind != URLEncoded {
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
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return nil, whyLong
	}
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		return nil, whyStrange
	}
	return body, isKept
}

// SetFormPolicy sets the policy of a page with a form, which no other page may frame.
func SetFormPolicy(h http.Header, r *Refusal) {
	if r.Embedded {
		setPolicy(h, "") // the page around the form is in a frame, and so is this one
		return
	}
	setPolicy(h, "'none'")
}

// spare is by how many bytes the inputs may be longer than twice what was sent. Those of what a
// browser sends are not: it has escaped as much.
const spare = 6 << 10

// FormPage returns the page that holds a form or, where it is not kept, asks to go
// back to it. site is the name of the site, as AppendPage has it.
func FormPage(r *Refusal, form KeptForm, site string) (b []byte) {
	if form.why == isKept {
		if b, form.why = keptPage(r, &form, site); form.why == isKept {
			return b
		}
	}
	w := form.words
	b = appendTop(b, r, &form, site)
	b = append(b, w.why[form.why]...)
	b = append(append(append(b, ' '), w.goBack...), "</p>\n"...)
	if wait := r.Wait(); wait > 0 {
		b = append(w.appendWait(append(b, "<p>"...), w.wait, wait), "</p>\n"...)
	}
	return append(b, "</main>\n"...)
}

// keptPage returns the page that holds a form, or why it holds none, and room for another page.
func keptPage(r *Refusal, form *KeptForm, site string) (b []byte, why why) {
	w := form.words
	b = appendTop(make([]byte, 0, 4<<10+len(form.body)), r, form, site)
	switch {
	case r.Setup:
		b = append(b, w.setup...)
	case r.Cause == QuotaExceeded:
		b = append(b, w.many...)
	default:
		b = append(b, w.check...)
	}
	b = append(append(b, ' '), w.kept...)
	// The form has no action: that is the URL of the page, which is the one it was sent
	// to, whatever stands in it.
	b = append(b, "</p>\n<form method=\"post\" accept-charset=\"utf-8\">\n"...)
	fields := fieldWriter{page: b, most: len(b) + 2*len(form.body) + spare, words: w, isSecret: form.isSecret}
	if why := fields.write(form.body); why != isKept {
		return b[:0], why
	}
	b = fields.page
	script := r.HasScript()
	if script { // what stands in the element is for a browser that does not run it, for whatever reason
		b = append(appendCheck(b, r), '>')
	}
	b = append(b, "<p>"...)
	if wait := r.Wait(); wait > 0 {
		b = w.appendWait(b, w.wait, wait)
	} else {
		b = append(b, w.unloaded...)
	}
	b = append(b, "</p>"...)
	if script {
		b = append(b, "</tally-check>"...)
	}
	b = append(append(append(b, "\n<p><button>"...), w.send...), "</button></p>\n</form>\n"...)
	if form.back != "" {
		b = append(b, `<p><a href="`...)
		b = appendEscaped(b, form.back)
		b = append(append(append(b, "\">"...), w.back...), "</a></p>\n"...)
	}
	return append(b, "</main>\n"...), isKept
}

// appendTop appends all before the first text of the page.
func appendTop(b []byte, r *Refusal, form *KeptForm, site string) []byte {
	b = appendSheet(appendHead(b, form.words.language), r.PageStyle)
	if r.HasScript() && form.why == isKept {
		b = appendElement(b, r)
	}
	return append(appendTitle(b, form.words.title, "", site, form.request), "<p>"...)
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
