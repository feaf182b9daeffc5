// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/middleware"
)

// openAPI opens a page with tallyFetch in it, and api, the URL of a resource of
// another origin.
func openAPI(t *testing.T, browser context.Context, s *site) *tab {
	t.Helper()
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	b := open(t, browser, s.URL+"/signup?csp="+url.QueryEscape("default-src 'self'; connect-src 'self' "+other+"; report-uri /csp"))
	b.module()
	b.run(`window.api = "` + other + `/api"`)
	return b
}

func TestFetch(t *testing.T) {
	browser := launch(t)
	for name, f := range map[string]func(*testing.T, *site, *tab){
		"another origin": func(t *testing.T, s *site, b *tab) {
			var own []bool
			for range 5 {
				require.Equal(t, 200, eval[int](b, `tallyFetch(api, { method: "POST", body: new URLSearchParams("a=b") }).then((r) => r.status)`))
			}
			for _, p := range s.got() {
				own = append(own, p.own)
				require.Equal(t, []string{"b"}, p.values["a"])
			}
			require.Equal(t, []bool{false, false, true, true, true}, own)
			require.Equal(t, 2, s.proofs(), "each pays for two posts")
			require.Empty(t, b.loaded("/redeem"), "the proof goes with the request")
		},
		"a request with a body": func(t *testing.T, s *site, b *tab) {
			for range 3 {
				require.Equal(t, 200, eval[int](b, `(() => {
					const body = new FormData();
					body.set("file", new Blob(["x".repeat(1e6)]), "x.txt");
					return tallyFetch(new Request(api, { method: "POST", body })).then((r) => r.status);
				})()`))
			}
			require.Len(t, s.got(), 3)
			require.Equal(t, s.got()[0].files, s.got()[2].files)
			require.Len(t, s.got()[2].files["x.txt"], 64)
		},
		"of many at once one buys": func(t *testing.T, s *site, b *tab) {
			require.Equal(t, []int{200, 200}, eval[[]int](b, `Promise.all([1, 2].map(() => tallyFetch(api).then((r) => r.status)))`))
			require.Equal(t, []int{200, 200}, eval[[]int](b, `Promise.all([1, 2].map(() => tallyFetch(api).then((r) => r.status)))`))
			require.Len(t, s.got(), 4)
			require.Equal(t, 1, s.proofs())
		},
		"the same origin by cookie": func(t *testing.T, s *site, b *tab) {
			require.Equal(t, []int{200, 200, 200}, eval[[]int](b, `(async () => {
				const all = [];
				for (let i = 0; i < 3; i++) all.push((await tallyFetch("/signup", { method: "POST", body: "a=b" })).status);
				return all;
			})()`))
			require.Len(t, s.got(), 3)
		},
		"prove first": func(t *testing.T, s *site, b *tab) {
			require.True(t, eval[bool](b, `prove("/tally/feedback/").then((r) => r.needed && r.work > 0 && r.left === 20)`))
			require.Equal(t, 200, eval[int](b, `fetch("/feedback", { method: "POST" }).then((r) => r.status)`))
		},
		"a stream is sent once": func(t *testing.T, s *site, b *tab) {
			require.Equal(t, "429 1", eval[string](b, `(async () => {
				const challenge = await (await fetch("/tally/signup/challenge")).json();
				const real = fetch;
				let sent = 0;
				window.fetch = async (r) => { sent++; return Response.json(challenge, { status: 429 }); };
				const body = new ReadableStream({ start(c) { c.enqueue(new Uint8Array(9)); c.close(); } });
				const response = await tallyFetch("/signup", { method: "POST", body, duplex: "half" });
				window.fetch = real;
				return response.status + " " + sent;
			})()`))
		},
		"a refusal without a challenge comes back whole": func(t *testing.T, s *site, b *tab) {
			require.Equal(t, `403 {"a":1}`, eval[string](b, `(async () => {
				const real = fetch;
				window.fetch = async () => Response.json({ a: 1 }, { status: 403 });
				const response = await tallyFetch("/signup");
				window.fetch = real;
				return response.status + " " + await response.text();
			})()`))
		},
		"too dear comes back whole": func(t *testing.T, s *site, b *tab) {
			require.Equal(t, "403 no-token", eval[string](b, `tallyFetch("/signup", { method: "POST" }, { maxWork: 1 }).then(async (r) => r.status + " " + (await r.json()).reason)`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			f(t, s, openAPI(t, browser, s))
			s.clean()
		})
	}
	t.Run("six posts, three for each proof", func(t *testing.T) {
		s := newSite(t, func(c *middleware.Config) {
			c.Limits[0].Quota = 3
			c.Challenge.Mode = middleware.Newcomers
		})
		b := openAPI(t, browser, s)
		for range 6 {
			require.Equal(t, 200, eval[int](b, `tallyFetch(api, { method: "POST" }).then((r) => r.status)`))
		}
		require.Len(t, s.got(), 6)
		require.Equal(t, 2, s.proofs())
		for i, c := range s.sent {
			if c.token != "" {
				require.Regexp(t, `^[\w-]+\.[\w-]+\.[\w-]+(,[\w-]+\.[\w-]+\.[\w-]+)?$`, c.token, "request %d shows one of each tally, whole", i)
			}
		}
	})
	t.Run("the last four tallies, and what is no token", func(t *testing.T) {
		s := newSite(t)
		var shown []string
		s.mux.HandleFunc("POST /odd", func(w http.ResponseWriter, r *http.Request) {
			shown = append(shown, r.Header.Get(middleware.TokenHeader))
			n := strconv.Itoa(len(shown))
			payload := base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"odd","sub":"` + n + `"}`))
			w.Header()[middleware.TokenHeader] = []string{"n" + n + "." + payload + ".s", "none", "a.b.c"}
		})
		b := open(t, browser, s.URL+"/signup")
		for range 6 {
			require.Equal(t, 200, eval[int](b, `import("/tally/signup/tally.js").then((m) => m.tallyFetch("/odd", { method: "POST" }, { header: true })).then((r) => r.status)`))
		}
		require.Len(t, strings.Split(shown[3], ","), 3)
		require.Regexp(t, `^n2\.\w+\.s,n3\.\w+\.s,n4\.\w+\.s,n5\.\w+\.s$`, shown[5])
	})
	t.Run("the tokens of two policies", func(t *testing.T) {
		s := newSite(t)
		outer := newLimit(t, "all", 9, byField)
		var shown []string
		stacked := outer.Handler(s.limits["api"].Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			shown = append(shown, r.Header.Get(middleware.TokenHeader))
		})))
		s.mux.HandleFunc("/api/stacked", func(w http.ResponseWriter, r *http.Request) {
			if !permit(w, r) {
				stacked.ServeHTTP(w, r)
			}
		})
		b := openAPI(t, browser, s)
		for range 2 {
			require.Equal(t, 200, eval[int](b, `tallyFetch(api + "/stacked").then((r) => r.status)`))
		}
		require.Empty(t, shown[0])
		require.Regexp(t, `^[\w-]+\.[\w-]+\.[\w-]+,[\w-]+\.[\w-]+\.[\w-]+$`, shown[1], "each whole")
	})
	t.Run("abort", func(t *testing.T) {
		s := newSite(t, func(c *middleware.Config) { c.Challenge.Work = 1 << 23 })
		b := openAPI(t, browser, s)
		require.Equal(t, "enough", eval[string](b, `(async () => {
			const abort = new AbortController();
			setTimeout(() => abort.abort("enough"), 300);
			const error = await tallyFetch("/signup", { method: "POST", signal: abort.signal }).catch((e) => e);
			return String(error);
		})()`))
		require.Empty(t, b.loaded("/redeem"))
	})
}

// A stranger is another origin that permits every page to send it our fields, and
// notes each request with those that it got, or that a preflight has asked for.
type stranger struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string
}

func newStranger(t *testing.T) *stranger {
	s := new(stranger)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fields []string
		for name := range r.Header {
			if strings.HasPrefix(name, "Tallystick-") {
				fields = append(fields, name)
			}
		}
		sort.Strings(fields)
		fields = append(fields, r.Header["Access-Control-Request-Headers"]...)
		s.mu.Lock()
		s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+strings.Join(fields, " ")))
		s.mu.Unlock()
		if !permit(w, r) {
			_, _ = io.WriteString(w, "stranger")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// permit lets scripts of any origin send our fields, and read them. It returns whether that is all that
// the request asks.
func permit(w http.ResponseWriter, r *http.Request) (asked bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Allow-Headers", strings.Join(middleware.CORSAllowHeaders(), ", "))
	h.Set("Access-Control-Expose-Headers", strings.Join(middleware.CORSExposeHeaders(), ", "))
	return r.Method == http.MethodOptions
}

// redirects adds /redirect/<policy>, which counts a request and then sends it on.
func (s *site) redirects() {
	for _, policy := range []string{"api", "contact"} {
		handler := s.limits[policy].Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to, status := r.FormValue("to"), 0
			if to == "" {
				_, _ = io.WriteString(w, "here")
				return
			}
			_, _ = fmt.Sscan(r.FormValue("status"), &status)
			http.Redirect(w, r, to, status)
		}))
		s.mux.HandleFunc("/redirect/"+policy, func(w http.ResponseWriter, r *http.Request) {
			if !permit(w, r) {
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// TestRedirects has tallyFetch sent on to an origin that would take our fields. They
// are for the origin of the request and for no other, unless the caller has said so.
func TestRedirects(t *testing.T) {
	browser := launch(t)
	type fields = []string
	const redirected = "redirected" // the reason of the error
	for name, c := range map[string]struct {
		own     bool // from the page's own origin, or else from another one
		within  bool // to the origin it came from, or else to the stranger
		cookies bool // the policy that carries tokens by cookie too
		status  int
		earlier int // requests: the first brings a token, the third needs a proof
		init    string
		options string
		want    string
		seen    fields // by the stranger
	}{
		"another origin, 301":                    {status: 301, earlier: 1, want: redirected},
		"another origin, 302":                    {status: 302, earlier: 1, want: redirected},
		"another origin, 303":                    {status: 303, earlier: 1, want: redirected},
		"another origin, 307":                    {status: 307, earlier: 1, want: redirected},
		"another origin, 308":                    {status: 308, earlier: 1, want: redirected},
		"another origin, the first request":      {status: 307, want: redirected},
		"another origin, with a proof":           {status: 307, earlier: 2, want: redirected},
		"another origin, by cookie with a proof": {status: 307, earlier: 2, init: `credentials: "include"`, want: redirected},
		"another origin, within it":              {status: 307, earlier: 1, within: true, want: redirected},
		"another origin, within it, followed":    {status: 307, earlier: 1, within: true, init: `redirect: "follow"`, want: "200 here"},
		"another origin, followed": {status: 307, earlier: 1, init: `redirect: "follow"`, want: "200 stranger",
			seen: fields{"OPTIONS tallystick-token", "POST Tallystick-Token"}},
		"another origin, by hand":          {status: 307, earlier: 1, init: `redirect: "manual"`, want: "opaqueredirect"},
		"another origin, an error":         {status: 307, earlier: 1, init: `redirect: "error"`, want: "TypeError"},
		"another origin, without CORS":     {status: 307, init: `mode: "no-cors"`, want: "opaque", seen: fields{"POST"}},
		"own origin, 307":                  {own: true, status: 307, earlier: 1, options: `header: true`, want: "TypeError"},
		"own origin, 303":                  {own: true, status: 303, earlier: 1, options: `header: true`, want: "TypeError"},
		"own origin, the first request":    {own: true, status: 307, options: `header: true`, want: "TypeError"},
		"own origin, with a proof":         {own: true, status: 307, earlier: 2, options: `header: true`, want: "TypeError"},
		"own origin, within it":            {own: true, within: true, status: 303, earlier: 1, options: `header: true`, want: "200 here"},
		"own origin, within it, a proof":   {own: true, within: true, status: 303, earlier: 2, options: `header: true`, want: "200 here"},
		"own origin, by cookie":            {own: true, cookies: true, status: 307, earlier: 1, want: "200 stranger", seen: fields{"POST"}},
		"own origin, by cookie, a proof":   {own: true, cookies: true, status: 307, earlier: 2, want: "TypeError"},
		"own origin, by cookie, within it": {own: true, cookies: true, within: true, status: 303, earlier: 2, want: "200 here"},
		"own origin, followed": {own: true, status: 307, earlier: 1, options: `header: true`, init: `redirect: "follow"`, want: "200 stranger",
			seen: fields{"OPTIONS tallystick-token", "POST Tallystick-Token"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, third := newSite(t), newStranger(t)
			s.redirects()
			from, policy := strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "api"
			if c.own {
				from = s.URL
			}
			if c.cookies {
				policy = "contact"
			}
			from += "/redirect/" + policy
			to := third.URL
			if c.within {
				to = from
			}
			b := open(t, browser, s.URL+"/signup?csp="+url.QueryEscape("default-src 'self'; connect-src 'self' "+from+" "+third.URL))
			b.module()
			got := eval[string](b, fmt.Sprintf(`(async () => {
				const send = (url) => tallyFetch(url, { method: "POST", %s }, { %s });
				for (let i = 0; i < %d; i++) await send(%q);
				try {
					const response = await send(%q);
					return response.status ? response.status + " " + await response.text() : response.type;
				} catch (error) {
					return error.reason ?? error.name;
				}
			})()`, c.init, c.options, c.earlier, from, from+"?"+url.Values{"to": {to}, "status": {fmt.Sprint(c.status)}}.Encode()))
			third.mu.Lock()
			defer third.mu.Unlock()
			require.Equal(t, c.seen, third.seen)
			require.Equal(t, c.want, got)
		})
	}
}

// TestRedeemIsNotRedirected has the endpoint itself send the proof elsewhere.
func TestRedeemIsNotRedirected(t *testing.T) {
	s, third := newSite(t), newStranger(t)
	s.mux.HandleFunc("GET /moved/challenge", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/tally/signup/challenge"
		s.limits["signup"].Endpoints().ServeHTTP(w, r)
	})
	s.mux.Handle("/moved/redeem", http.RedirectHandler(third.URL, http.StatusTemporaryRedirect))
	b := open(t, launch(t), s.URL+"/signup?csp="+url.QueryEscape("default-src 'self'; connect-src 'self' "+third.URL))
	b.module()
	got := eval[string](b, `prove("/moved/").then(() => "bought", (error) => error.name)`)
	third.mu.Lock()
	defer third.mu.Unlock()
	require.Empty(t, third.seen)
	require.Equal(t, "TypeError", got)
}

// TestFetchInAFrameWithoutAURL: what a frame of the page's own markup calls its own
// origin is not in its location.
func TestFetchInAFrameWithoutAURL(t *testing.T) {
	s := newSite(t)
	s.redirects()
	s.mux.Handle("GET /framed.js", static("javascript", fmt.Sprintf(`import { tallyFetch } from %q;
parent.framed = location.origin + " " + await (await tallyFetch("/redirect/contact?status=303&to=/redirect/contact", { method: "POST" })).text();`, s.limits["contact"].ScriptURL())))
	b := open(t, launch(t), s.URL+"/elsewhere")
	b.run(`document.body.append(Object.assign(document.createElement("iframe"), { srcdoc: '<script type="module" src="/framed.js"></script>' }))`)
	b.wait(`window.framed`)
	require.Equal(t, "null here", eval[string](b, `framed`))
}

// TestFetchKeepsWhatIsAskedFor: the referrer, whose default differs from page to page,
// and the Origin field, by which servers know their own pages.
func TestFetchKeepsWhatIsAskedFor(t *testing.T) {
	browser := launch(t)
	for name, c := range map[string]struct {
		page, init, options string
		referrer, origin    string // %s is the page's own origin
	}{
		"nothing":                  {referrer: "%s/signup", origin: "%s"},
		"a field":                  {options: `header: true`, referrer: "%s/signup", origin: "%s"},
		"no referrer":              {init: `referrerPolicy: "no-referrer"`, origin: "%s"},
		"an empty one":             {init: `referrer: ""`, origin: "%s"},
		"another one":              {init: `referrer: "/other"`, referrer: "%s/other", origin: "%s"},
		"a page without":           {page: "no-referrer", origin: "%s"},
		"a page without, by field": {page: "no-referrer", options: `header: true`, referrer: "%s/signup", origin: "%s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var got http.Header
			s.mux.HandleFunc("POST /note", func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
			b := open(t, browser, s.URL+"/signup")
			if c.page != "" {
				b.run(`document.head.append(Object.assign(document.createElement("meta"), { name: "referrer", content: "` + c.page + `" }))`)
			}
			b.module()
			b.run(`tallyFetch("/note", { method: "POST", ` + c.init + ` }, { ` + c.options + ` })`)
			require.Equal(t, strings.ReplaceAll(c.referrer, "%s", s.URL), got.Get("Referer"))
			require.Equal(t, strings.ReplaceAll(c.origin, "%s", s.URL), got.Get("Origin"))
		})
	}
}

// busyOnce has a path answer the first proof by 503 and pass the rest on. It returns the proofs that came.
func busyOnce(s *site, path string, next http.Handler) (proofs func() []string) {
	var mu sync.Mutex
	var came []string
	s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		if permit(w, r) {
			return
		}
		mu.Lock()
		proof := r.Header.Get(middleware.ProofHeader)
		if proof != "" {
			came = append(came, proof)
		}
		busy := proof != "" && len(came) == 1
		mu.Unlock()
		if busy {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(came)
	}
}

// TestProofOutlivesItsAnswer: instances that hear each other answer 503 where they cannot tell now, and the proof stays
// good. Whatever comes next to the same place shows it, and only that.
func TestProofOutlivesItsAnswer(t *testing.T) {
	browser := launch(t)
	const (
		twice   = `const first = await prove("/tally/signup/").catch((e) => e);`
		refused = `first.status + " " + first.wait`
		post    = `(await tallyFetch(api, { method: "POST" })).status`
	)
	for name, test := range map[string]struct {
		path, do, want string // in the API if "api"
		proofs         int    // that are solved
		shown          int
	}{
		"a form waits":              {"redeem", "", "", 1, 2},
		"a script asks again":       {"redeem", twice + `const bought = await prove("/tally/signup/"); return ` + refused + ` + " " + bought.needed + " " + (bought["expires-in"] > 0)`, "503 1 true true", 1, 2},
		"it expires meanwhile":      {"redeem", twice + `const { now } = Date; Date.now = () => now() + 6e5; await prove("/tally/signup/"); return ` + refused, "503 1", 2, 2},
		"a request is sent again":   {"api", `return ` + post + ` + " " + ` + post, "503 200", 1, 2},
		"it goes to nowhere else":   {"api", `return ` + post + ` + " " + await (await tallyFetch(api + "/else", { method: "POST" })).text() + " " + ` + post, "503 none 200", 1, 2},
		"it has expired since then": {"api", `const first = ` + post + `; const { now } = Date; Date.now = () => now() + 6e5; return first + " " + ` + post, "503 200", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(c *middleware.Config) { c.Challenge.Mode = middleware.Newcomers })
			s.mux.HandleFunc("/api/else", func(w http.ResponseWriter, r *http.Request) {
				if !permit(w, r) {
					_, _ = io.WriteString(w, cmp.Or(r.Header.Get(middleware.ProofHeader), "none"))
				}
			})
			var proofs func() []string
			if test.path == "api" {
				proofs = busyOnce(s, "/api", s.limits["api"].Handler(http.HandlerFunc(s.receive)))
			} else {
				proofs = busyOnce(s, "/tally/signup/redeem", s.limits["signup"].Endpoints())
			}
			b := openAPI(t, browser, s)
			if test.do == "" {
				b.click("#send")
				b.wait(thanked)
				require.Len(t, s.got(), 1)
			} else {
				require.Equal(t, test.want, eval[string](b, `(async () => {`+test.do+`})().then(String)`))
			}
			require.Len(t, proofs(), test.shown)
			require.Len(t, slices.Compact(proofs()), test.proofs)
			if test.path == "redeem" {
				require.Len(t, b.loaded("/challenge"), test.proofs)
			}
			s.clean()
		})
	}
}
