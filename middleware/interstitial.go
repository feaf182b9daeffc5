package middleware

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// An Interstitial is a Config.Page for sites with plain HTML forms. Where a form
// was refused it answers with a page that holds what was filled in, so that it
// can be sent again from there: after the work that a script does, or after a
// wait. All else that is refused gets Page.
//
// It changes no decision, and runs after it: status and fields are those of the
// refusal. Unlike the rest of this package it reads bodies, those of refused
// requests, up to MaxBody; the server's ReadTimeout is what ends a slow one.
//
// Not everything is put into the page:
//
//   - Nothing that another site has sent, or may have: from the page it would
//     come back as this site's own, past every defence against forged requests.
//     What counts is Sec-Fetch-Site or else Origin; a browser that sends neither
//     gets Page.
//   - No passwords, PINs and card numbers, which are recognised by their names in
//     some languages (see Secret). They are to be typed again.
//   - No multipart form, no more than MaxBody and 500 fields, and nothing that is
//     not UTF-8: there the page asks to go back and send it again.
//
// The form goes back to the URL it was sent to. The page names no other, and its
// Content-Security-Policy permits none, nor anything inline, nor to be framed
// (but with Config.EmbeddedCookie): a handler that redirects a form to another
// origin will find that some browsers stop there. The policy is added to one
// that is set already, and both hold. The script needs Challenge.Path.
type Interstitial struct {
	_ [0]func()

	// MaxBody is how much of a body is read, in bytes. Default: 65536, also for what
	// is less than 1. The page may be ten times as long.
	MaxBody int64

	// Secret reports whether the field of a name is secret too, beside those
	// that are known to be. Default: none.
	Secret func(name string) bool

	// Page answers what is no form that may be sent again. Default: the built-in
	// page.
	Page http.Handler
}

// defaultMaxBody holds long letters, and no files.
const defaultMaxBody = 64 << 10

// ServeHTTP implements [http.Handler]. Outside of Config.Page or Config.Refused
// it has nothing to say and answers 500.
func (i Interstitial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.refusal == nil {
		http.Error(w, "middleware.Interstitial belongs in Config.Page", http.StatusInternalServerError)
		return
	}
	html := prefersHTML(r.Header["Accept"])
	kind := formKind(r)
	if kind == "" || !html || !x.offersAnything() || !fromSameOrigin(r) {
		if html && i.Page != nil {
			i.Page.ServeHTTP(w, r)
			return
		}
		x.refusal.engine.writeRefusal(w, r, x, new(answer), html)
		return
	}
	h := w.Header()
	h.Add("Content-Security-Policy", x.refusal.engine.pagePolicy())
	var page []byte
	if fields, why := i.hold(w, r, kind); why == "" {
		page = appendForm(nil, x, fields)
	} else {
		page = appendGoBack(nil, &x.decision, why)
	}
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Length"] = []string{strconv.Itoa(len(page))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(x.decision.Status)
	_, _ = w.Write(page)
}

// offersAnything reports whether sending the request again can be of use.
func (x *exchange) offersAnything() bool { return x.script() || x.decision.wait() > 0 }

// script reports whether a script can do something for the request.
func (x *exchange) script() bool {
	return x.decision.Challenge != nil && x.refusal.engine.challenge.path != ""
}

// The kinds of forms.
const (
	kindURLEncoded = "application/x-www-form-urlencoded"
	kindMultipart  = "multipart/form-data"
)

// formKind returns how the form was sent that r submits; "" if r is something
// else, such as a script's own request.
func formKind(r *http.Request) string {
	if mode := r.Header["Sec-Fetch-Mode"]; r.Method != http.MethodPost || len(mode) > 0 && mode[0] != "navigate" {
		return ""
	}
	lines := r.Header["Content-Type"]
	if len(lines) != 1 {
		return ""
	}
	kind, _, _ := mime.ParseMediaType(lines[0]) // a bad parameter is none of a browser's
	if kind == kindURLEncoded || kind == kindMultipart {
		return kind
	}
	return ""
}

// fromSameOrigin reports whether a page of this very origin has sent r. It is
// stricter than http.CrossOriginProtection, which lets pass what may well be no
// browser's: here, who cannot be told is a stranger. Sec-Fetch-Site cannot be set
// by scripts and is right behind any proxy; browsers leave it out over plain HTTP.
func fromSameOrigin(r *http.Request) bool {
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

// Why a form cannot be held: what people are told.
const (
	whyKind    = "This kind of form cannot be kept in this page."
	whyLong    = "It is too long to be kept in this page."
	whyStrange = "It was sent in a way that this page cannot keep."
)

// hold reads the fields of a form, or says why not.
func (i *Interstitial) hold(w http.ResponseWriter, r *http.Request, kind string) (fields []formField, why string) {
	if kind != kindURLEncoded {
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
	most := i.MaxBody
	if most <= 0 {
		most = defaultMaxBody
	}
	if r.ContentLength > most {
		return nil, whyLong
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
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
	for n := range fields {
		f := &fields[n]
		f.secret = f.value != "" && (secretName(f.name) || i.Secret != nil && i.Secret(f.name))
	}
	return fields, ""
}

// pagePolicy is the Content-Security-Policy of the page: it needs our own script,
// that one's worker and requests, and our style.
func (e *engine) pagePolicy() string {
	const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'"
	if e.embedded {
		return policy // the page around the form is in a frame, and so is this one
	}
	return policy + "; frame-ancestors 'none'"
}

const pageHead = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"

// appendForm appends the page that holds a form. What comes from the request is
// in the values of attributes and, of the names of secret fields, in labels. The
// form has no action: that is the URL of the page, which is the one it was sent
// to, whatever stands in it.
func appendForm(b []byte, x *exchange, fields []formField) []byte {
	d, script := &x.decision, x.script()
	b = append(b, pageHead...)
	if script {
		b = append(b, `<link rel="stylesheet" href="`...)
		b = appendEscaped(b, x.refusal.engine.styleURL())
		b = append(b, "\">\n<script type=\"module\" src=\""...)
		b = appendEscaped(b, x.refusal.engine.scriptURL())
		b = append(b, "\"></script>\n"...)
	}
	b = append(b, "<title>Not sent yet</title>\n<h1>Not sent yet</h1>\n<p>"...)
	switch {
	case d.Reason == OverLimit || d.Reason == SoldOut:
		b = append(b, "There were too many requests from where you are."...)
	default:
		b = append(b, "This form wants your browser to do a little work first, to show that it is worth serving."...)
	}
	b = append(b, " What you have written is kept in this page.</p>\n<form method=\"post\" accept-charset=\"utf-8\">\n"...)
	for i := range fields {
		b = fields[i].append(b)
	}
	if script {
		b = append(b, `<tally-check endpoint="`...)
		b = appendEscaped(b, x.refusal.engine.challenge.path)
		if d.Cost > 1 { // the endpoint cannot know
			b = append(b, `" cost="`...)
			b = strconv.AppendInt(b, d.Cost, 10)
		}
		b = append(b, "\"></tally-check>\n<noscript>"...)
	}
	b = append(b, "<p>"...)
	if wait := d.wait(); wait > 0 {
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

// appendGoBack appends the page about a form that is not held. The browser has
// what was written.
func appendGoBack(b []byte, d *Decision, why string) []byte {
	b = append(b, pageHead...)
	b = append(b, "<title>Not sent yet</title>\n<h1>Not sent yet</h1>\n<p>"...)
	b = append(b, why...)
	b = append(b, " Please go back, where your browser has kept it, and send it again.</p>\n"...)
	if wait := d.wait(); wait > 0 {
		b = append(appendWait(append(b, "<p>"...), wait), "</p>\n"...)
	}
	return b
}
