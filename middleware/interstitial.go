// SPDX-License-Identifier: Apache-2.0

package middleware

import (
	"net/http"
	"strconv"

	"github.com/tallystick/tallystick/middleware/internal/page"
)

// An Interstitial is a Config.PageHandler for sites with plain HTML forms. Where a form
// was refused it answers with a page that holds what was filled in, so that it
// can be sent again from there: after the work that a script does, or after a
// wait. Every other refused request gets Page, by default the built-in one, which does the
// work and opens the page that was asked for.
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
//   - No multipart form, no more than MaxBody and 100 fields, no names of more than 256
//     bytes each and 2048 in all, nothing that would make the page much longer than twice
//     what was sent, and nothing that is not UTF-8: there the page asks to go back and send
//     it again.
//
// The form goes back to the URL it was sent to, and a link to the page it came from, if
// that is of the same origin. The page's Content-Security-Policy permits forms to no
// other origin. It permits nothing inline, and no framing except with
// Config.EmbeddedCookie. A handler that redirects a form to another
// origin will find that some browsers stop there. The policy is added to one
// that is set already, and both hold. Script and style need Challenge.Path.
//
// The page is in one of ten languages, by the Content-Language that is set already
// or else by Accept-Language: docs/browser.md names them.
type Interstitial struct {
	_ [0]func()

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
}

// defaultMaxBody holds long letters, and no files.
const defaultMaxBody = 64 << 10

// ServeHTTP implements [http.Handler]. Outside of Config.PageHandler or
// Config.RefusalHandler it has nothing to say and answers 500.
func (i Interstitial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	dc := contextOf(r.Context())
	if dc == nil || dc.decision.aside == nil || dc.decision.aside.refusal == nil {
		http.Error(w, "middleware.Interstitial belongs in Config.PageHandler", http.StatusInternalServerError)
		return
	}
	refusal := dc.decision.aside.refusal
	html, kind := dc.wantsPage(r), page.KindOf(r)
	helps := refusal.HasScript() || refusal.Wait() > 0 // to send it again
	if kind == page.NoForm || !html || !helps || !page.FromSameOrigin(r) {
		if html && i.Page != nil {
			i.Page.ServeHTTP(w, r)
			return
		}
		_, _ = writeRefusal(w, r, refusal, new(refusalFields), nil, html, i.Title)
		return
	}
	maxBody := i.MaxBody
	if maxBody <= 0 {
		maxBody = defaultMaxBody
	}
	form := page.Keep(w, r, kind, maxBody, i.Secret)
	body := page.AppendForm(nil, refusal, form, i.Title)
	h := w.Header()
	h.Add("Content-Security-Policy", page.FormPolicy(refusal))
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(body)
}
