// SPDX-License-Identifier: Apache-2.0

package keptform

import (
	"net/http"

	"github.com/tallystick/tallystick/middleware/internal/page"
	"github.com/tallystick/tallystick/middleware/internal/words"
)

// A form is a refused form, or the reason why it is not kept.
type form struct {
	request  *http.Request
	body     []byte
	isSecret func(name string) bool // beside what names say; may be nil
	why      why
	language words.Language
	back     string // the path of the page that has sent it; "": not known
}

// spare is how many bytes the inputs may be longer than twice the sent body. A browser's own
// body never needs it: it is escaped as much.
const spare = 6 << 10

// page returns the page that holds the form or, where it is not kept, asks to go back to it.
// site is the name of the site, as page.AppendPage has it.
func (f *form) page(r *page.Refusal, site string) (b []byte) {
	if f.why == isKept {
		if b, f.why = f.keptPage(r, site); f.why == isKept {
			return b
		}
	}
	w := f.language.Page()
	b = page.Add(f.appendTop(b, r, site), because(f.language.Form(), f.why), " ", w.GoBack, "</p>\n")
	if wait := r.Wait(); wait > 0 {
		b = page.Add(f.language.AppendWait(page.Add(b, "<p>"), w.Wait, wait), "</p>\n")
	}
	return page.Add(b, "</main>\n")
}

// keptPage returns the page that holds the form, or why it holds none, and room for another page.
func (f *form) keptPage(r *page.Refusal, site string) (b []byte, why why) {
	w, words := f.language.Page(), f.language.Form()
	b = f.appendTop(make([]byte, 0, 4<<10+len(f.body)), r, site)
	reason := w.Check
	switch {
	case r.Setup:
		reason = w.Setup
	case r.Cause == page.QuotaExceeded:
		reason = w.Many
	}
	// The form has no action: that is the URL of the page, which is the one it was sent
	// to, whatever stands in it.
	b = page.Add(b, reason, " ", words.Kept, "</p>\n<form method=\"post\" accept-charset=\"utf-8\">\n")
	fields := fieldWriter{page: b, most: len(b) + 2*len(f.body) + spare, words: words, isSecret: f.isSecret}
	if why := fields.write(f.body); why != isKept {
		return b[:0], why
	}
	b = fields.page
	script := r.HasScript()
	if script { // what stands in the element is for a browser that does not run it, for whatever reason
		b = page.Add(page.AppendCheck(b, r), ">")
	}
	b = page.Add(b, "<p>")
	if wait := r.Wait(); wait > 0 {
		b = f.language.AppendWait(b, w.Wait, wait)
	} else {
		b = page.Add(b, w.Unloaded)
	}
	b = page.Add(b, "</p>")
	if script {
		b = page.Add(b, "</tally-check>")
	}
	b = page.Add(b, "\n<p><button>", words.Send, "</button></p>\n</form>\n")
	if f.back != "" {
		b = page.Add(page.AppendEscaped(page.Add(b, `<p><a href="`), f.back), "\">", words.Back, "</a></p>\n")
	}
	return page.Add(b, "</main>\n"), isKept
}

// appendTop appends all before the first text of the page.
func (f *form) appendTop(b []byte, r *page.Refusal, site string) []byte {
	element := r.HasScript() && f.why == isKept
	return page.Add(page.AppendTop(b, r, f.language, element, f.language.Page().Title, site, f.request), "<p>")
}

// because returns the sentence that says why a form is not kept.
func because(w *words.Form, why why) string {
	switch why {
	case whyKind:
		return w.Kind
	case whyLong:
		return w.Long
	}
	return w.Strange
}
