// SPDX-License-Identifier: Apache-2.0

// Package keptform keeps what a visitor has typed into a plain HTML form that was refused:
//
//	PageHandler: keptform.Handler{},
//
// The page in place of the refusal holds the fields, and sends them again after
// a script's work, or after a wait.
//
// It runs after the decision and changes nothing of it: status and fields are
// the refusal's. Unlike package middleware it reads the bodies of refused
// requests, up to Handler.MaxBody; the server's ReadTimeout ends a slow one.
//
// Not everything is put into the page:
//
//   - Nothing that another site may have sent: the page would send it as this
//     site's own, past every defence against forged requests. Sec-Fetch-Site
//     decides, or else Origin; a browser that sends neither gets Handler.Page.
//   - No passwords, PINs and card numbers: their names in some languages show
//     them (see Handler.Secret). The visitor types them again.
//   - No multipart form, no more than MaxBody and 100 fields, no names of more than 256
//     bytes each and 2048 in all, nothing that would make the page much longer than twice
//     what was sent, and nothing that is not UTF-8: there the page asks to go back and send
//     it again.
//
// The form goes back to the URL it was sent to, and a link to the page it came from, if
// that is of the same origin. The page's Content-Security-Policy permits forms to no
// other origin. It permits nothing inline, and no framing except with
// Config.Advanced.EmbeddedCookie. Some browsers stop where a handler redirects a form
// to another origin. This policy replaces one that is set already, except
// frame-ancestors and the reporting of violations. Script and style need
// Challenge.Path.
//
// The page is in one of fifteen languages, by the Content-Language that is set already
// or else by Accept-Language: docs/forms.md names them.
package keptform

import (
	"net/http"
	"strconv"

	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/words"
)

// A Handler is a middleware.Config.PageHandler. Where a form was refused it answers with a page that holds what was
// filled in. Every other refused request gets Page, by default the built-in one, which does the work and opens the page
// that was asked for.
type Handler struct {
	// Title is the name of the site, for people. Default: the host's, as the request has it.
	Title string

	// MaxBody is how much of a body is read, in bytes. Default: 65536, also for what
	// is less than 1. The page is at most twice as long, and 16 KB.
	MaxBody int64

	// Secret reports whether the field of a name is secret too, beside those
	// that are known to be. Default: none.
	Secret func(name string) bool

	// Page answers what is no form that may be sent again. Default: the built-in
	// page.
	Page http.Handler

	withElement //lint:ignore U1000 package middleware looks for its method
}

type withElement = page.WithElement //lint:ignore U1000 as above

// defaultMaxBody holds long letters, and no files.
const defaultMaxBody = 64 << 10

// ServeHTTP implements [http.Handler]. Outside of Config.PageHandler or
// Config.RefusalHandler it has nothing to say and answers 500.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given := page.GivenIn(r.Context())
	if given == nil {
		http.Error(w, "keptform.Handler belongs in Config.PageHandler", http.StatusInternalServerError)
		return
	}
	html, kind := given.PrefersHTML(), kindOf(r)
	helps := given.HasScript() || given.Wait() > 0 // to send it again
	mayKeep := kind != noForm && html && helps
	if mayKeep && !fromSameOrigin(r) {
		given.SentByAnother(r)
		mayKeep = false
	}
	if !mayKeep {
		if html && h.Page != nil {
			h.Page.ServeHTTP(w, r)
			return
		}
		given.Answer(w, r, h.Title)
		return
	}
	maxBody := h.MaxBody
	if maxBody <= 0 {
		maxBody = defaultMaxBody
	}
	fields := w.Header()
	kept := form{request: r, isSecret: h.Secret, language: words.For(fields, r), back: backOf(r)}
	kept.body, kept.why = read(w, r, kind, maxBody)
	body := kept.page(given.Refusal, h.Title)
	if kept.why == isKept && given.HasScript() && !given.Setup {
		given.SendsScript(r)
	}
	ancestors := "'none'"
	if given.Embedded {
		ancestors = "" // the page around the form is in a frame, and so is this one
	}
	page.SetPolicy(fields, ancestors)
	fields["Content-Type"] = []string{"text/html; charset=utf-8"}
	fields["Content-Length"] = []string{strconv.Itoa(len(body))}
	fields["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(given.Status)
	_, _ = w.Write(body)
}
