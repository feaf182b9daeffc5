package page

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A FormKind is how a form was sent.
type FormKind string

// The kinds of forms. Only those of the first are kept.
const (
	NoForm     FormKind = ""
	URLEncoded FormKind = "application/x-www-form-urlencoded"
	Multipart  FormKind = "multipart/form-data"
)

// KindOf returns how the form was sent that r submits; NoForm if r is something else,
// such as a script's own request.
func KindOf(r *http.Request) FormKind {
	if mode := r.Header["Sec-Fetch-Mode"]; r.Method != http.MethodPost || len(mode) > 0 && mode[0] != "navigate" {
		return NoForm
	}
	lines := r.Header["Content-Type"]
	if len(lines) != 1 {
		return NoForm
	}
	mediaType, _, _ := mime.ParseMediaType(lines[0]) // a bad parameter is none of a browser's
	if kind := FormKind(mediaType); kind == URLEncoded || kind == Multipart {
		return kind
	}
	return NoForm
}

// FromSameOrigin reports whether a page of this very origin has sent r. It is stricter
// than http.CrossOriginProtection, which lets pass what may well be no browser's: here,
// a sender that cannot be told is a stranger. Sec-Fetch-Site cannot be set by scripts
// and is right behind any proxy; browsers leave it out over plain HTTP.
func FromSameOrigin(r *http.Request) bool {
	if site := r.Header["Sec-Fetch-Site"]; len(site) > 0 {
		return len(site) == 1 && site[0] == "same-origin"
	}
	origin := r.Header["Origin"]
	if len(origin) != 1 {
		return false
	}
	u, err := url.Parse(origin[0])
	return err == nil && u.Host != "" && u.Host == r.Host && (u.Scheme == "https" || u.Scheme == "http" && r.TLS == nil)
}

// A KeptForm is a form that was refused, or why it is not kept.
type KeptForm struct {
	fields []field
	why    string
}

// Why a form cannot be kept: what people are told.
const (
	whyKind    = "This kind of form cannot be kept in this page."
	whyLong    = "It is too long to be kept in this page."
	whyStrange = "It was sent in a way that this page cannot keep."
)

// Keep reads the form that r submits from its body, up to maxBody bytes. Fields whose
// names say that they are secret are kept without their value, and so are those for
// which isSecret, if not nil, reports true.
func Keep(w http.ResponseWriter, r *http.Request, kind FormKind, maxBody int64, isSecret func(name string) bool) KeptForm {
	fields, why := read(w, r, kind, maxBody)
	for i := range fields {
		f := &fields[i]
		f.secret = f.value != "" && (secretName(f.name) || isSecret != nil && isSecret(f.name))
	}
	return KeptForm{fields, why}
}

// read reads the fields of a form, or says why not.
func read(w http.ResponseWriter, r *http.Request, kind FormKind, maxBody int64) (fields []field, why string) {
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
	fields, err = parseForm(string(body))
	switch {
	case errors.Is(err, errManyFields):
		return nil, whyLong
	case err != nil:
		return nil, whyStrange
	}
	return fields, ""
}

// FormPolicy is the Content-Security-Policy of a page with a form: it needs our own
// script, that one's worker and requests, and our style.
func FormPolicy(r *Refusal) string {
	const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'"
	if r.Embedded {
		return policy // the page around the form is in a frame, and so is this one
	}
	return policy + "; frame-ancestors 'none'"
}

// AppendForm appends the page that holds a form or, where it is not kept, asks to go
// back to it.
func AppendForm(b []byte, r *Refusal, form KeptForm) []byte {
	if form.why != "" {
		return appendGoBack(b, r, form.why)
	}
	script := r.HasScript()
	b = append(b, head...)
	if script {
		b = append(b, `<link rel="stylesheet" href="`...)
		b = appendEscaped(b, r.Style)
		b = append(b, "\">\n<script type=\"module\" src=\""...)
		b = appendEscaped(b, r.Script)
		b = append(b, "\"></script>\n"...)
	}
	b = append(b, "<title>Not sent yet</title>\n<h1>Not sent yet</h1>\n<p>"...)
	if r.Cause == QuotaExceeded {
		b = append(b, "There were too many requests from where you are."...)
	} else {
		b = append(b, "This form wants your browser to do a little work first, to show that it is worth serving."...)
	}
	// The form has no action: that is the URL of the page, which is the one it was sent
	// to, whatever stands in it.
	b = append(b, " What you have written is kept in this page.</p>\n<form method=\"post\" accept-charset=\"utf-8\">\n"...)
	for i := range form.fields {
		b = form.fields[i].append(b)
	}
	if script {
		b = append(b, `<tally-check endpoint="`...)
		b = appendEscaped(b, r.Base)
		if r.Cost > 1 { // the endpoint cannot know
			b = append(b, `" cost="`...)
			b = strconv.AppendInt(b, r.Cost, 10)
		}
		b = append(b, "\"></tally-check>\n<noscript>"...)
	}
	b = append(b, "<p>"...)
	if wait := r.Wait(); wait > 0 {
		b = appendWait(b, wait)
	} else {
		b = append(b, "It needs JavaScript for that."...)
	}
	b = append(b, "</p>"...)
	if script {
		b = append(b, "</noscript>"...)
	}
	return append(b, "\n<p><button>Send again</button></p>\n</form>\n"...)
}

// appendGoBack appends the page about a form that is not kept. The browser has what was
// written.
func appendGoBack(b []byte, r *Refusal, why string) []byte {
	b = append(b, head...)
	b = append(b, "<title>Not sent yet</title>\n<h1>Not sent yet</h1>\n<p>"...)
	b = append(b, why...)
	b = append(b, " Please go back, where your browser has kept it, and send it again.</p>\n"...)
	if wait := r.Wait(); wait > 0 {
		b = append(appendWait(append(b, "<p>"...), wait), "</p>\n"...)
	}
	return b
}
