// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
)

// maxBody is far above what the longest valid form takes.
const maxBody = 64 << 10

// receive returns the handler of one of the forms. By the time it
// runs the request has been counted, so a mistyped address costs as much as a good one: else a
// script could probe for free.
func receive(all []form, i int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := slices.Clone(all)
		shown[i].Fields = slices.Clone(all[i].Fields)
		p := read(w, r, shown[i].Fields)
		switch {
		case p != nil && p.Errors != nil && wantsHTML(r):
			writePage(w, p.Status, "forms", page{Title: "Please check the form", Problem: p, Forms: shown})
		case p != nil:
			writeProblem(w, r, p)
		case wantsHTML(r):
			// A page of its own, so that reloading it sends nothing again.
			http.Redirect(w, r, "/accepted", http.StatusSeeOther)
		default:
			writeJSON(w, http.StatusOK, "application/json", map[string]bool{"accepted": true})
		}
	})
}

// read reads the fields from the body of r: a form in either of its encodings, or a
// JSON object. What else is there is ignored. It returns nil if all went well.
func read(w http.ResponseWriter, r *http.Request, fields []field) *problem {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	var err error
	values := map[string]any{}
	switch mediaType(r) {
	case "application/json":
		var body []byte
		if body, err = io.ReadAll(r.Body); err == nil {
			err = json.Unmarshal(body, &values)
		}
	case "multipart/form-data":
		// maxBody is below what is kept in memory: no file is ever written.
		err = r.ParseMultipartForm(maxBody)
	case "application/x-www-form-urlencoded":
		err = r.ParseForm()
	default:
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: "Send a form or JSON."}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: "Send at most 64 KiB."}
	case err != nil:
		return &problem{Status: http.StatusBadRequest, Detail: "The body cannot be read."}
	}
	for name := range r.PostForm {
		values[name] = r.PostForm.Get(name)
	}
	problems := map[string]string{}
	for i := range fields {
		f := &fields[i]
		if f.take(values[f.Name]); f.Problem != "" {
			problems[f.Name] = f.Problem
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &problem{Status: http.StatusUnprocessableEntity, Detail: "Some fields are not valid.", Errors: problems}
}
