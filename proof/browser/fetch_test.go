// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"
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
