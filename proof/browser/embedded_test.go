// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
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
	mux.HandleFunc("GET /press.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, `document.querySelector("#send").click();`)
	})
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

// TestPartialPosts sends a form as libraries of the htmx kind do: a listener sends
// it by fetch and puts the answer into the page.
func TestPartialPosts(t *testing.T) {
	browser := launch(t)
	for _, policy := range []string{"signup", "contact", "feedback"} {
		t.Run(policy, func(t *testing.T) {
			s := newSite(t)
			b := open(t, browser, s.URL+"/"+policy+"?auto=off")
			b.run(`import(document.querySelector("[type=module]").src).then((m) => {
				const form = document.querySelector("form");
				form.addEventListener("submit", async (event) => {
					event.preventDefault();
					const response = await m.tallyFetch(form.action, { method: "POST", body: new FormData(form) });
					form.insertAdjacentHTML("afterend", await response.text());
				});
			})`)
			for n := range 4 {
				b.click("#send")
				b.wait(fmt.Sprintf(`document.querySelectorAll("#thanks").length === %d`, n+1))
			}
			require.Len(t, s.got(), 4)
			s.clean()
		})
	}
}

// TestVectors solves what Go and Python solve, pow/testdata/vectors.json, to the
// same answers, with workers and without.
func TestVectors(t *testing.T) {
	browser := launch(t)
	text, err := os.ReadFile("../../pow/testdata/vectors.json")
	require.NoError(t, err)
	var vectors struct {
		Issue []struct {
			Name, Header, Proof string
			Work                int
		}
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.Greater(t, len(vectors.Issue), 5)
	s := newSite(t)
	s.hasTime("signup")
	b := open(t, browser, s.URL+"/signup")
	b.module()
	solved := 0
	for _, v := range vectors.Issue {
		if v.Work > 1<<20 {
			continue // minutes
		}
		for _, workers := range []int{0, 2} {
			require.Equal(t, v.Proof, eval[string](b, fmt.Sprintf("solve(%q, { workers: %d })", v.Header, workers)), v.Name)
		}
		solved++
	}
	require.Greater(t, solved, 5)
}
