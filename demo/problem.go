// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/tallystick/tallystick/internal/span"
	"github.com/tallystick/tallystick/middleware"
)

// showRefusal shows people what a limiter refused: Config.PageHandler.
func showRefusal(w http.ResponseWriter, r *http.Request) {
	d, _ := middleware.FromContext(r.Context())
	p := &problem{Title: http.StatusText(d.Status), Status: d.Status, Limits: d.Limits()}
	switch d.Reason {
	case middleware.OverLimit, middleware.SoldOut:
		p.Title = "Quota exceeded"
		p.Detail = "Try again in " + span.Text(d.RetryAfter) + "."
	case middleware.NoToken, "replayed", middleware.MemoryFull:
		p.Title = "Proof of work required"
	}
	if d.RoomWait > 0 && (d.RetryAfter == 0 || d.RoomWait < d.RetryAfter) {
		p.Detail = "Try again in " + span.Text(d.RoomWait) + ": that works without JavaScript too."
	}
	p.Work = d.Offered != nil
	writePage(w, p.Status, "problem", page{Title: p.Title, Problem: p})
}

// refuseForeign answers a form that another site sent.
func refuseForeign(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, &problem{Status: http.StatusForbidden, Detail: "Another site sent this form. Nothing was counted."})
}

// writeProblem answers with p in the form the client prefers.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	if wantsHTML(r) {
		writePage(w, p.Status, "problem", page{Title: p.Title, Problem: p})
		return
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or not
}

// mediaType returns the type of the body without parameters, and something that matches nothing if it cannot be told.
// Without a type there is nothing: an empty form.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"))
	if err != nil {
		return "?"
	}
	return t
}

// wantsHTML reports whether the client is a browser, which names text/html. A client that sends JSON is a script.
func wantsHTML(r *http.Request) bool {
	return mediaType(r) != "application/json" && strings.Contains(strings.ToLower(strings.Join(r.Header["Accept"], ",")), "text/html")
}
