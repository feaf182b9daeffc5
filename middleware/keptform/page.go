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
	b = f.appendTop(b, r, site)
	b = append(b, because(f.language.Form(), f.why)...)
	b = append(append(append(b, ' '), w.GoBack...), "</p>\n"...)
	if wait := r.Wait(); wait > 0 {
		b = append(f.language.AppendWait(append(b, "<p>"...), w.Wait, wait), "</p>\n"...)
	}
	return append(b, "</main>\n"...)
}

// keptPage returns the page that holds the form, or why it holds none, and room for another page.
func (f *form) keptPage(r *page.Refusal, site string) (b []byte, why why) {
	w, words := f.language.Page(), f.language.Form()
	b = f.appendTop(make([]byte, 0, 4<<10+len(f.body)), r, site)
	switch {
	case r.Setup:
		b = append(b, w.Setup...)
	case r.Cause == page.QuotaExceeded:
		b = append(b, w.Many...)
	default:
		b = append(b, w.Check...)
	}
	b = append(append(b, ' '), words.Kept...)
	// The form has no action: that is the URL of the page, which is the one it was sent
	// to, whatever stands in it.
	b = append(b, "</p>\n<form method=\"post\" accept-charset=\"utf-8\">\n"...)
	fields := fieldWriter{page: b, most: len(b) + 2*len(f.body) + spare, words: words, isSecret: f.isSecret}
	if why := fields.write(f.body); why != isKept {
		return b[:0], why
	}
	b = fields.page
	script := r.HasScript()
	if script { // what stands in the element is for a browser that does not run it, for whatever reason
		b = append(page.AppendCheck(b, r), '>')
	}
	b = append(b, "<p>"...)
	if wait := r.Wait(); wait > 0 {
		b = f.language.AppendWait(b, w.Wait, wait)
	} else {
		b = append(b, w.Unloaded...)
	}
	b = append(b, "</p>"...)
	if script {
		b = append(b, "</tally-check>"...)
	}
	b = append(append(append(b, "\n<p><button>"...), words.Send...), "</button></p>\n</form>\n"...)
	if f.back != "" {
		b = append(b, `<p><a href="`...)
		b = page.AppendEscaped(b, f.back)
		b = append(append(append(b, "\">"...), words.Back...), "</a></p>\n"...)
	}
	return append(b, "</main>\n"...), isKept
}

// appendTop appends all before the first text of the page.
func (f *form) appendTop(b []byte, r *page.Refusal, site string) []byte {
	element := r.HasScript() && f.why == isKept
	return append(page.AppendTop(b, r, f.language, element, f.language.Page().Title, site, f.request), "<p>"...)
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
