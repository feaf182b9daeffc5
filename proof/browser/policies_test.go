// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// policies are what sites have that permit scripts by a nonce, each for a page with the nonce "r4nd0m".
var policies = map[string]string{
	"nonce":          "default-src 'self'; script-src 'nonce-r4nd0m'; worker-src 'self'; report-uri /csp",
	"strict-dynamic": "default-src 'none'; script-src 'nonce-r4nd0m' 'strict-dynamic'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; report-uri /csp",
	"trusted types":  "script-src 'nonce-r4nd0m' 'strict-dynamic'; object-src 'none'; require-trusted-types-for 'script'; report-uri /csp",
	"sandbox":        "sandbox; default-src 'none'; report-uri /csp",
}

// under gives a URL a policy, which the site sets, or "proxy" adds.
func under(address, by, policy string) string {
	return address + "?" + url.Values{by: {policy}}.Encode()
}

// TestPagesUnderTheSitesPolicy: our pages know their scripts, and have a policy of their own.
func TestPagesUnderTheSitesPolicy(t *testing.T) {
	browser := launch(t)
	for name, policy := range policies {
		t.Run("a page opens, "+name, func(t *testing.T) {
			s := newWiki(t)
			b := open(t, browser, s.URL+"/elsewhere")
			b.do(chromedp.Navigate(under(s.URL+"/wiki/Ada", "csp", policy)))
			b.wait(opened)
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
		t.Run("a form is kept, "+name, func(t *testing.T) {
			s := newSite(t, func(c *middleware.Config) { c.PageHandler = keptform.Handler{} })
			s.mux.HandleFunc("GET /plain", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_ = plain.Execute(w, under("signup", "csp", policy)+"#")
			})
			b := open(t, browser, s.URL+"/plain")
			b.click("#send")
			b.wait(`document.title.startsWith("Not sent yet") && ` + element + `?.dataset.state === "idle"`)
			b.fill("[type=password]", "secret")
			b.click("form button:not([type=button])")
			b.wait(thanked)
			require.Len(t, b.loaded("/redeem"), 1)
			s.clean()
		})
	}
}

// TestPagesUnderAProxysPolicy: a policy that a proxy adds holds beside ours, and no script runs. The page says so, and
// promises nothing; its link leads in by the waiting room.
func TestPagesUnderAProxysPolicy(t *testing.T) {
	browser := launch(t)
	t.Run("a page opens", func(t *testing.T) {
		s := newWiki(t)
		b := open(t, browser, s.URL+"/elsewhere")
		b.do(chromedp.Navigate(under(s.URL+"/wiki/Ada", "proxy", "script-src 'nonce-r4nd0m' 'strict-dynamic'")))
		b.wait(`getComputedStyle(` + element + `).visibility === "visible"`)
		require.Equal(t, []string{"One moment, please", "The check needs JavaScript, and its script has not loaded. Try again in 5 seconds.", "Load this page again"}, b.reads())
		opensRooms()
		b.click("main a")
		b.wait(opened)
	})
	t.Run("a form is kept", func(t *testing.T) {
		s := newSite(t, func(c *middleware.Config) { c.PageHandler = keptform.Handler{} })
		s.mux.HandleFunc("GET /plain", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_ = plain.Execute(w, under("signup", "proxy", "script-src 'none'")+"#")
		})
		b := open(t, browser, s.URL+"/plain")
		b.click("#send")
		b.wait(`document.title.startsWith("Not sent yet") && document.readyState === "complete" && getComputedStyle(` + element + `).visibility === "visible"`)
		require.Contains(t, b.reads(), "Try again in 5 seconds.")
		opensRooms()
		b.fill("[type=password]", "secret")
		b.click("form button:not([type=button])")
		b.wait(thanked)
	})
}

// TestElementUnderANonce: in the site's own page the script has the nonce, and what it imports and its workers need none.
func TestElementUnderANonce(t *testing.T) {
	browser := launch(t)
	for _, name := range []string{"nonce", "strict-dynamic"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, dear)
			limit := s.limits["signup"]
			s.mux.HandleFunc("GET /nonce", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, strings.NewReplacer("{{STYLE}}", limit.StyleURL(), "{{SCRIPT}}", limit.ScriptURL()).Replace(`<!doctype html><html lang="de"><title>nonce</title>
<link rel="stylesheet" href="{{STYLE}}">
<script nonce="r4nd0m">
	window.crew = 0;
	window.Worker = class extends Worker { constructor(...all) { super(...all); crew++; this.addEventListener("message", () => { window.heard = true; }); } };
</script>
<script type="module" nonce="r4nd0m" src="{{SCRIPT}}"></script>
<form method="post" action="/signup"><input name="message" value="hello"><tally-check endpoint="/tally/signup/"></tally-check><button id="send">Send</button></form>
<script nonce="r4nd0m">document.querySelector("form").addEventListener("submit", () => { sessionStorage.worked = crew && heard; });</script>`))
			})
			b := open(t, browser, under(s.URL+"/nonce", "csp", policies[name]))
			require.True(t, eval[bool](b, element+`.matches(":defined")`))
			b.click("[name=message]")
			b.wait(element + `.querySelector("progress").ariaLabel === "Prüfung läuft…"`) // a module that a module asks for
			b.click("#send")
			b.wait(thanked)
			require.Len(t, b.loaded("/redeem"), 1)
			require.Equal(t, "true", eval[string](b, "sessionStorage.worked"), "by workers")
			s.clean()
		})
	}
}

// TestPageBehindAPrefix: a proxy takes a prefix from the path. Challenge.Path is what browsers see; with the inner path
// nothing of the page is found, and it says so.
func TestPageBehindAPrefix(t *testing.T) {
	browser := launch(t)
	behind := func(t *testing.T, endpoints string) (*wiki, *tab) {
		s := newWiki(t, func(c *middleware.Config) { c.Challenge.Path = endpoints })
		target, err := url.Parse(s.URL)
		require.NoError(t, err)
		outside := http.NewServeMux()
		outside.Handle("/app/", http.StripPrefix("/app", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
		proxy := httptest.NewServer(outside)
		t.Cleanup(proxy.Close)
		b := open(t, browser, s.URL+"/elsewhere")
		b.do(chromedp.Navigate(proxy.URL + "/app/wiki/one?a=b"))
		return s, b
	}
	t.Run("the path that browsers see", func(t *testing.T) {
		s, b := behind(t, "/app/tally/wiki/")
		b.wait(opened)
		require.Equal(t, "/app/wiki/one?a=b", eval[string](b, "location.pathname + location.search"))
		require.Len(t, b.loaded("/redeem"), 1)
		s.clean()
	})
	t.Run("the path inside", func(t *testing.T) {
		_, b := behind(t, "/tally/wiki/")
		b.wait(`document.querySelector("main a") && document.readyState === "complete"`)
		require.Equal(t, []string{"One moment, please", "The check needs JavaScript, and its script has not loaded. Try again in 5 seconds.", "Load this page again"}, b.reads())
		opensRooms()
		b.click("main a")
		b.wait(opened)
	})
}
