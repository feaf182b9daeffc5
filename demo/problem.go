package main

import (
	"encoding/json"
	"net/http"

	"github.com/tallystick/tallystick/middleware"
)

// A problem is an answer that is no success: problem details (RFC 9457), or the
// same as a page.
type problem struct {
	Type   string            `json:"type,omitempty"` // none means about:blank
	Title  string            `json:"title"`
	Status int               `json:"status"`
	Detail string            `json:"detail,omitempty"`
	Errors map[string]string `json:"errors,omitempty"` // by field

	// Violated are the limits that refused, in the draft's word for them.
	Violated []string `json:"violated-policies,omitempty"`

	// Limits are for the page alone.
	Limits []middleware.LimitStatus `json:"-"`
}

func unprocessable(problems map[string]string) *problem {
	return &problem{Status: http.StatusUnprocessableEntity, Detail: "Some fields are not valid.", Errors: problems}
}

// refuse answers what a limiter refused: Config.Refused.
func refuse(w http.ResponseWriter, r *http.Request) {
	d, _ := middleware.FromContext(r.Context())
	p := &problem{Status: d.Status, Limits: d.Limits()}
	if d.Reason == middleware.OverLimit {
		p.Type = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		p.Title = "Quota exceeded"
		p.Detail = "Try again in " + d.RetryAfter.String() + "."
	}
	for _, limit := range p.Limits {
		if limit.Blocked {
			p.Violated = append(p.Violated, limit.Name)
		}
	}
	writeProblem(w, r, p)
}

// refuseForeign answers a form that another site sent.
func refuseForeign(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, &problem{Status: http.StatusForbidden, Detail: "Another site sent this form. Nothing was counted."})
}

// writeProblem answers with p in the form the client prefers.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if wantsHTML(r) {
		writePage(w, p.Status, "problem", page{Title: http.StatusText(p.Status), Problem: p})
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
