// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

// receive returns the handler of a form.
func receive(newForm func() form) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := newForm()
		// A page of its own, so that reloading it sends nothing again.
		answerForm(w, r, f, "/accepted", func(p *problem) {
			again := page{Title: "Please check the form"}
			f.fill(&again, p.Errors)
			writePage(w, p.Status, "forms", again)
		})
	})
}

// answerForm reads a form and answers it: a browser goes to next, or gets its page again. By the time it
// runs the request has been counted, so a mistyped address costs as much as a good one: else a
// script could probe for free.
func answerForm(w http.ResponseWriter, r *http.Request, f form, next string, again func(*problem)) {
	p := decode(w, r, f)
	if p == nil {
		if problems := check(f); problems != nil {
			p = unprocessable(problems)
		}
	}
	switch {
	case p != nil && p.Errors != nil && wantsHTML(r):
		again(p)
	case p != nil:
		writeProblem(w, r, p)
	case wantsHTML(r):
		http.Redirect(w, r, next, http.StatusSeeOther)
	default:
		writeJSON(w, http.StatusOK, "application/json", map[string]bool{"accepted": true})
	}
}
