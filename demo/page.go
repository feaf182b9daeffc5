// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/tallystick/tallystick/middleware"
)

//go:embed web
var web embed.FS

// A page feeds the templates. No script and no style is inline: everything
// works under default-src 'self', and without JavaScript.
type page struct {
	Title   string
	Forms   []form
	Problem *problem
	Home    *homeView // of the home page
}

// A homeView feeds the template of the home page.
type homeView struct {
	Attack picture
	Boxes  []box // of the form to try
	Height int   // of their picture
	Middle int
	Lines  string
	Price  string // a path: what a tally costs
}

// A box is an instance in the picture of the form.
type box struct{ Number, Top, Middle int }

// A problem is an answer that is no success: problem details (RFC 9457), or the
// same as a page.
type problem struct {
	Title  string            `json:"title"`
	Status int               `json:"status"`
	Detail string            `json:"detail,omitempty"`
	Errors map[string]string `json:"errors,omitempty"` // by field

	// For the page alone: how the limits stand, and whether work is offered.
	Limits []middleware.LimitStatus `json:"-"`
	Work   bool                     `json:"-"`
}

var templates = func() map[string]*template.Template {
	all := make(map[string]*template.Template)
	words := template.FuncMap{"window": inWords, "inc": func(n int) int { return n + 1 }, "row": func(n int) int { return 40 + 24*n }}
	for _, name := range []string{"home", "forms", "accepted", "problem"} {
		t := template.New("layout.html").Funcs(words)
		all[name] = template.Must(t.ParseFS(web, "web/layout.html", "web/"+name+".html"))
	}
	return all
}()

// shows returns the handler of a page that is always the same.
func shows(name string, p page) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writePage(w, http.StatusOK, name, p) }
}

// writePage renders before it writes, so that a template that fails leaves no
// half of a page behind a 200.
func writePage(w http.ResponseWriter, status int, name string, p page) {
	var b bytes.Buffer
	if err := templates[name].Execute(&b, p); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client is gone, or not
}

// inWords names the windows that this site has.
func inWords(window time.Duration) string {
	words := map[time.Duration]string{time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}
	return cmp.Or(words[window], strings.TrimSuffix(window.String(), "0s"))
}
