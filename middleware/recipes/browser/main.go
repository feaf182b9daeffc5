// SPDX-License-Identifier: Apache-2.0

// Command browser is a site whose forms are sent by htmx, by fetch, and by plain browsers. The documentation prints
// parts of it, in docs/recipes.md.
//
// What bites: htmx asks for a fragment, and the built-in page is a whole document, which htmx 4 swaps
// into the target: it asks for text/html, and swaps refusals too. htmx 2 asks for anything,
// gets problem details, and swaps nothing of a refusal: the visitor sees nothing happen. So the
// page says that it wants HTML, and that refusals are swapped; PageHandler makes the fragment.
// Scripts that ask for JSON, or for anything, get problem details: Status and Retry-After matter.
package main

import (
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

func main() {
	limit, err := middleware.New(middleware.Config{
		Policy:      "contact",
		Limits:      []middleware.Limit{{Quota: 5, Window: time.Minute}},
		Secrets:     [][]byte{[]byte(os.Getenv("TALLYSTICK_SECRET"))}, // the same on every instance
		Challenge:   &middleware.Challenge{Path: "/tally/contact/"},
		PageHandler: http.HandlerFunc(refused),
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":8080", site(limit)))
}

func site(limit *middleware.Middleware) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _ = page.Execute(w, limit) })
	mux.Handle("POST /contact", limit.Handler(http.HandlerFunc(contact)))
	mux.Handle("/tally/contact/", limit.Endpoints())
	return mux
}

// refused answers those that prefer HTML: htmx with a fragment, a plain form with a page that keeps
// what was typed.
func refused(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("HX-Request") != "true" {
		keptform.Handler{}.ServeHTTP(w, r)
		return
	}
	d, _ := middleware.FromContext(r.Context())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(d.Status)
	_, _ = fmt.Fprintf(w, `<p role="alert">Too many messages. Try again in %.0f seconds.</p>`, d.RetryAfter.Seconds())
}

func contact(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `<p>Thank you.</p>`)
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<title>Contact</title>
<meta name="htmx-config" content='{"responseHandling": [{"code": "204", "swap": false}, {"code": "[2-5]..", "swap": true}]}'>
<link rel="stylesheet" href="{{.StyleURL}}">
<script type="module" src="{{.ScriptURL}}"></script>
<script src="/htmx.js" defer></script>
<form hx-post="/contact" hx-target="#said" hx-headers='{"Accept": "text/html"}' method="post" action="/contact">
  <label>Message <input name="message"></label>
  <tally-check endpoint="/tally/contact/"></tally-check>
  <button>Send</button>
</form>
<div id="said"></div>
</html>
`))
