// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/proof/kit"
)

// TestAcrossSites has a form in another site's frame, and an API on another site
// that is called with credentials: both live on the cookie that is Partitioned.
func TestAcrossSites(t *testing.T) {
	browser := launch(t, chromedp.Flag("ignore-certificate-errors", true))
	s := newSite(t, func(c *middleware.Config) {
		c.EmbeddedCookie = c.TokenTransport != middleware.HeaderOnly
	})
	form := s.Config.Handler
	api := newLimit(t, "orders", 2, func(c *middleware.Config) {
		c.TokenTransport, c.EmbeddedCookie, c.Challenge = middleware.CookieOnly, true, &middleware.Challenge{Work: work}
	})
	var cookies []string
	orders := api.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies = append(cookies, r.Header.Get("Cookie"))
		s.receive(w, r)
	}))
	mux := http.NewServeMux()
	mux.Handle("/", form)
	mux.HandleFunc("GET /host", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>host</title><iframe src="https://`+strings.Replace(r.Host, "localhost", "127.0.0.1", 1)+`/framed" width="600" height="400"></iframe>`)
	})
	mux.HandleFunc("GET /framed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", strict)
		_, _ = fmt.Fprintf(w, `<!doctype html><title>framed</title><script type="module" src=%q></script><script type="module" src="/press.js"></script>
<form method="post" action="/signup"><input name="message" value="framed"><tally-check endpoint="/tally/signup/"></tally-check><button id="send">Send</button></form>`, s.limits["signup"].ScriptURL())
	})
	mux.Handle("GET /press.js", static("javascript", `document.querySelector("#send").click();`))
	mux.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		if !permit(w, r) { // a program names the origin
			orders.ServeHTTP(w, r)
		}
	})
	secure := httptest.NewTLSServer(mux)
	t.Cleanup(secure.Close)
	home := strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)

	t.Run("a form in a frame", func(t *testing.T) {
		open(t, browser, home+"/host")
		require.Eventually(t, func() bool { return len(s.got()) == 1 }, patience, 20*time.Millisecond)
		require.True(t, s.got()[0].own, "the cookie of the frame came along")
		require.Equal(t, []string{"framed"}, s.got()[0].values["message"])
		s.clean()
	})
	t.Run("an API with credentials", func(t *testing.T) {
		b := open(t, browser, home+"/elsewhere?csp="+strings.ReplaceAll("default-src 'self' "+secure.URL, " ", "%20"))
		b.run(`import("` + s.limits["signup"].ScriptURL() + `").then((m) => Object.assign(window, m))`)
		for range 4 { // two are for nothing, then it buys, and the answer sets the cookie
			require.Equal(t, 200, eval[int](b, `tallyFetch("`+secure.URL+`/orders", { method: "POST", body: new URLSearchParams("a=b"), credentials: "include" }).then((r) => r.status)`))
		}
		require.Len(t, cookies, 4)
		require.Empty(t, cookies[0])
		for _, c := range cookies[1:] {
			require.Contains(t, c, "__Host-tallystick-orders=")
		}
		require.True(t, s.got()[4].own)
	})
}

// TestCopiedFiles serves the files that docs/forms.md lists, and no other, from the page's
// own origin, which knows nothing of Tallystick, and calls an API of another one.
func TestCopiedFiles(t *testing.T) {
	browser := launch(t)
	doc := kit.Must(os.ReadFile("../../docs/forms.md"))(t)
	list := regexp.MustCompile("(?:`[a-z]+\\.(?:js|css)`,?(?: and)?\\s+){3,}").FindAllString(string(doc), -1)
	require.Len(t, list, 1, "lists of files")

	s := newSite(t, dear)
	s.redirects()
	dir := t.TempDir()
	for name := range strings.FieldsFuncSeq(strings.ReplaceAll(list[0], " and", ""), func(r rune) bool { return strings.ContainsRune("`, \n", r) }) {
		resp := kit.Must(http.Get(s.URL + "/tally/api/" + name))(t)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body := kit.Must(io.ReadAll(resp.Body))(t)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), body, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte(`<!doctype html><title>copies</title>
<link rel="stylesheet" href="/static/tally.css">
<script type="module" src="/static/tally.js"></script>
<form><tally-check></tally-check></form>`), 0o600))
	files := http.StripPrefix("/static/", http.FileServer(http.Dir(dir)))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src "+s.URL)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(page.Close)

	b := open(t, browser, page.URL+"/static/")
	require.Equal(t, "flex", eval[string](b, `getComputedStyle(document.querySelector("tally-check")).display`))
	b.run("(() => {" + workers + "})()")
	b.module()
	made := b.works(s)
	for _, m := range made {
		require.Equal(t, page.URL+"/static/solver.js", m)
	}
	for _, r := range b.loaded(".js") {
		require.Contains(t, r, " "+page.URL+"/static/")
	}
}

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
			s := keepForms(t, under("signup", "csp", policy)+"#")
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
		s := keepForms(t, under("signup", "proxy", "script-src 'none'")+"#")
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
			s.mux.Handle("GET /nonce", static("html", strings.NewReplacer("{{STYLE}}", limit.StyleURL(), "{{SCRIPT}}", limit.ScriptURL()).Replace(`<!doctype html><html lang="de"><title>nonce</title>
<link rel="stylesheet" href="{{STYLE}}">
<script nonce="r4nd0m">
	window.crew = 0;
	window.Worker = class extends Worker { constructor(...all) { super(...all); crew++; this.addEventListener("message", () => { window.heard = true; }); } };
</script>
<script type="module" nonce="r4nd0m" src="{{SCRIPT}}"></script>
<form method="post" action="/signup"><input name="message" value="hello"><tally-check endpoint="/tally/signup/"></tally-check><button id="send">Send</button></form>
<script nonce="r4nd0m">document.querySelector("form").addEventListener("submit", () => { sessionStorage.worked = crew && heard; });</script>`)))
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
		target := kit.Must(url.Parse(s.URL))(t)
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
