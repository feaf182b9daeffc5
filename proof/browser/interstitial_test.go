// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"html/template"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

var plain = template.Must(template.New("plain").Parse(`<!doctype html><title>plain</title>
<form method="post" action="/{{.}}?from=plain">
<input name="message" value="a &amp; b"><input name="message" value="twice"><input name="password" type="password" value="secret">
<button id="send" name="as" value="draft">Send</button>
</form>`))

// TestKeptFormIsSentOn refuses forms that know nothing of work. The page in between
// keeps what was written, works, and sends it on.
func TestKeptFormIsSentOn(t *testing.T) {
	browser := launch(t)
	for policy, visits := range map[string]int{"signup": 1, "contact": 3, "feedback": 1} {
		t.Run(policy, func(t *testing.T) {
			s := newSite(t, func(c *middleware.Config) { c.PageHandler = keptform.Handler{} })
			s.mux.HandleFunc("GET /plain", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_ = plain.Execute(w, policy)
			})
			var b *tab
			for n := range visits {
				if b == nil {
					b = open(t, browser, s.URL+"/plain")
				} else {
					b.visit(s.URL + "/plain")
				}
				b.click("#send")
				if n < visits-1 {
					b.wait(thanked) // the shared tally has some
				}
			}
			b.wait(`document.title.startsWith("Not sent yet") && ` + element + `?.dataset.state === "idle"`)
			require.Equal(t, "", eval[string](b, `document.querySelector("[type=password]").value`), "asked for again")
			require.NotContains(t, eval[string](b, "document.documentElement.outerHTML"), "secret\"")
			b.fill("[type=password]", "secret")
			b.click("form button:not([type=button])")
			b.wait(thanked)
			last := s.got()[len(s.got())-1]
			require.Equal(t, fmt.Sprintf("/%s?from=plain", policy), last.path)
			require.Equal(t, []string{"a & b", "twice"}, last.values["message"])
			require.Equal(t, []string{"secret"}, last.values["password"])
			require.Equal(t, []string{"draft"}, last.values["as"])
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
	}
}
