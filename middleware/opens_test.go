// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
)

// navigating is what a browser sends that goes to a page.
func navigating(more ...string) option {
	return func(r *http.Request) {
		method(http.MethodGet)(r)
		with("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none")(r)
		for i := 0; i < len(more); i += 2 {
			r.Header.Set(more[i], more[i+1])
		}
	}
}

// opening reports whether a page has the one opened that was asked for.
func opening(t *testing.T, resp *http.Response) bool {
	t.Helper()
	page := bodyOf(t, resp)
	require.Equal(t, strings.Contains(page, "<script"), strings.Contains(page, "<tally-check"))
	return strings.Contains(page, "<script")
}

// A page that is refused by GET has itself opened: by scripts and styles of the endpoints,
// named by their content, and with nothing in it that the site's policy must permit.
func TestPageOpens(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, waiting(new(clock), mode))
			spendShared(t, h, mode)
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, navigating(), path("/wiki/Ada?a=<b>")))
			require.Equal(t, resp.StatusCode, h.Decisions.Last().Status)
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			require.Empty(t, resp.Header.Values("X-Robots-Tag"), "it would be believed of the page behind")
			challengeIn(t, resp)
			page := bodyOf(t, resp)
			require.Less(t, len(page), 2<<10, "of a flood, each is answered with so much")
			require.NotContains(t, page, "wiki", "the page names no URL")
			files := map[string]bool{}
			for _, tag := range tagsIn(t, page) {
				switch tag.name {
				case "script":
					require.Equal(t, "module", tag.attributes["type"])
					files[tag.attributes["src"]] = true
				case "link":
					files[tag.attributes["href"]] = true
				case "tally-check":
					require.Equal(t, "/tally/", tag.attributes["endpoint"])
					require.Equal(t, challengeIn(t, resp).Text, tag.attributes["data-challenge"])
				case "form":
					require.Empty(t, tag.attributes)
				case "a":
					require.Equal(t, map[string]string{"href": ""}, tag.attributes, "the page's own URL")
				}
			}
			require.Len(t, files, 7)
			require.True(t, files[h.M.ScriptURL()])
			require.True(t, files[h.M.StyleURL()])
			for file := range files {
				require.Regexp(t, `^/tally/[0-9a-f]{16}/((tally|page)\.(css|js)|(fetch|texts|solver)\.js)$`, file)
				served := requireStatus(t, http.StatusOK, send(h, method("GET"), path(file)))
				require.Equal(t, "public, max-age=31536000, immutable", served.Header.Get("Cache-Control"))
			}
			require.Equal(t, http.StatusTooManyRequests, send(h, navigating(), method(http.MethodHead)).StatusCode)
		})
	}
}

// Only what a browser shows as a page is answered by one; and only a page by a status that
// search engines take for a matter of time.
func TestWhoGetsThePage(t *testing.T) {
	const never, plain, opens = 0, 1, 2
	for name, test := range map[string]struct {
		option
		want int
	}{
		"a navigation":                    {navigating(), opens},
		"by a link of another site":       {navigating("Sec-Fetch-Site", "cross-site"), opens},
		"no fields of fetch, Accept only": {func(r *http.Request) { method("GET")(r); html(r) }, opens},
		"a frame of the site's own":       {navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-origin"), opens},
		"a frame of a sibling":            {navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-site"), opens},
		"a frame of another site":         {navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"), plain},
		"through a service worker":        {navigating("Sec-Fetch-Dest", "empty"), opens},
		"a form":                          {submitting(urlencoded, "a=b"), plain},
		"an object":                       {navigating("Sec-Fetch-Dest", "object"), never},
		"an embed":                        {navigating("Sec-Fetch-Dest", "embed"), never},
		"a style sheet":                   {navigating("Accept", "text/css,*/*;q=0.1", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "style"), never},
		"an image":                        {navigating("Accept", "image/avif,image/webp,*/*;q=0.8", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"), never},
		"a link that is prefetched":       {navigating("Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty", "Sec-Purpose", "prefetch"), never},
		"a script's request":              {navigating("Accept", "*/*", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"), never},
		"a script's request for HTML":     {navigating("Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"), never},
		"a program":                       {func(r *http.Request) { method("GET")(r); with("Accept", "*/*")(r) }, never},
	} {
		for kind, handler := range map[string]http.Handler{"built-in": nil, "keptform": keptform.Handler{}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				cfg := waiting(new(clock), middleware.Newcomers)
				cfg.PageHandler = handler
				resp := send(newSite(t, cfg), test.option)
				isPage := resp.Header.Get("Content-Type") == "text/html; charset=utf-8"
				require.Equal(t, test.want != never, isPage)
				byGet := test.want != never && name != "a form"
				require.Equal(t, byGet, resp.StatusCode == http.StatusTooManyRequests, resp.Status)
				require.Equal(t, !byGet, resp.StatusCode == http.StatusForbidden, resp.Status)
				if name != "a form" { // a kept form has a script of its own
					require.Equal(t, test.want == opens, opening(t, resp))
				}
			})
		}
	}
}

// There is no script where it would be in vain: without endpoints, where no cookie carries what
// it buys, and where no work helps. The page says nothing of work then.
func TestPageThatOpensNothing(t *testing.T) {
	for name, change := range map[string]func(*middleware.Config){
		"no Path": func(c *middleware.Config) { c.Challenge.Path = "" },
		"HeaderOnly": func(c *middleware.Config) {
			c.TokenTransport, c.Challenge.WaitingRoom = middleware.HeaderOnly, 0
		},
		"above the quota": func(c *middleware.Config) { c.Cost = func(*http.Request) int64 { return 1000 } },
		"who cannot tell": func(c *middleware.Config) { c.Identity = nil },
		"no Challenge":    func(c *middleware.Config) { c.Challenge = nil },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := waiting(new(clock), middleware.Newcomers)
			change(&cfg)
			if name == "above the quota" {
				cfg.Challenge.Mode = middleware.WhenExhausted
			}
			h := newLimiter(t, cfg).Handler(new(spy))
			nobody := func(r *http.Request) {
				if name == "who cannot tell" {
					r.RemoteAddr = "@"
				}
			}
			if cfg.Challenge == nil {
				admitted(h, 5*laneQuota)
			}
			resp := send(h, navigating(), nobody)
			if name == "above the quota" {
				require.Equal(t, http.StatusForbidden, resp.StatusCode, "it never passes")
			}
			page := bodyOf(t, resp)
			require.NotContains(t, page, "script ")
			require.NotContains(t, page, "tally-check")
			require.NotContains(t, page, "calculation")
			require.Regexp(t, "<h1>(This page cannot be opened|Too many requests)</h1>", page)
		})
	}
	t.Run("another site's frame, with cookies that are for it", func(t *testing.T) {
		cfg := waiting(new(clock), middleware.Newcomers)
		resp := send(newSite(t, cfg), navigating())
		require.Regexp(t, "; frame-ancestors 'self'$", resp.Header.Get("Content-Security-Policy"), "for browsers that do not say who frames it")
		cfg.EmbeddedCookie = true
		resp = send(newSite(t, cfg), navigating("Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"))
		require.True(t, opening(t, resp))
		require.NotContains(t, resp.Header.Get("Content-Security-Policy"), "frame-ancestors")
	})
}

// The page has the name of the site: the program's, or the host's. What it costs is said to
// the element, which cannot know.
func TestPageOfASite(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	cfg.Cost = costOf
	h := newSite(t, cfg)
	named := func(h http.Handler, host string) string {
		page := bodyOf(t, send(h, navigating(), costing(2), func(r *http.Request) { r.Host = host }))
		require.Contains(t, page, `endpoint="/tally/" cost="2" text-`)
		_, rest, _ := strings.Cut(page, "<title>One moment, please")
		title, rest, _ := strings.Cut(rest, "</title>\n<main>\n")
		line, _, _ := strings.Cut(rest, "<h1 ")
		if title == "" {
			require.Empty(t, line)
			return ""
		}
		require.Equal(t, "<p>"+strings.TrimPrefix(title, " – ")+"</p>\n", line)
		return strings.TrimPrefix(title, " – ")
	}
	for host, want := range map[string]string{
		"wiki.example": "wiki.example", "wiki.example:8443": "wiki.example", "[2001:db8::1]:8443": "[2001:db8::1]", "[::1]": "[::1]", "": "",
		"<script>": "&lt;script&gt;", strings.Repeat("a", 254): "",
	} {
		require.Equal(t, want, named(h, host))
	}
	cfg.PageHandler = keptform.Handler{Title: "Ada & friends"}
	h = newSite(t, cfg)
	require.Equal(t, "Ada &amp; friends", named(h, "wiki.example"))
	require.Contains(t, bodyOf(t, send(h, submitting(urlencoded, "a=b"))), "<title>Not sent yet – Ada &amp; friends</title>")
}

// Fifteen languages, by what the browser asks for or the site is in. A Cyrillic letter takes two bytes.
func TestPageSpeaks(t *testing.T) {
	h := newSite(t, waiting(new(clock), middleware.Newcomers))
	titles := map[string]bool{}
	for _, language := range []string{"en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "he", "ru", "ko", "tr", "uk"} {
		page := bodyOf(t, send(h, navigating("Accept-Language", language+"-XX,xx;q=0.9")))
		require.Contains(t, page, `<html lang="`+language+`"`)
		require.Equal(t, language == "he", strings.Contains(page, ` dir="rtl">`))
		require.Less(t, utf8.RuneCountInString(page), 2<<10, language)
		_, title, _ := strings.Cut(page, "<title>")
		title, _, _ = strings.Cut(title, "</title>")
		require.False(t, titles[title], title)
		titles[title] = true
	}
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Language", "ja")
		h.ServeHTTP(w, r)
	})
	require.Contains(t, bodyOf(t, send(site, navigating("Accept-Language", "de"))), `<html lang="ja">`)
}

// The site's policy is for its own pages. One that names scripts by a nonce forbids ours, so a page of ours has its own policy in
// its place. What the site says of others holds on.
func TestPageUnderThePolicyOfItsSite(t *testing.T) {
	own := "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
	for name, test := range map[string]struct{ site, want []string }{
		"none":               {nil, []string{own + "; frame-ancestors WHO"}},
		"a nonce":            {[]string{"script-src 'nonce-r4nd0m' 'strict-dynamic'; object-src 'none'"}, []string{own + "; frame-ancestors WHO"}},
		"framing, reports":   {[]string{"default-src 'none'; FRAME-ancestors https://a.example; report-uri /csp;;report-to csp"}, []string{own + "; report-uri /csp; report-to csp; frame-ancestors WHO", "FRAME-ancestors https://a.example"}},
		"several":            {[]string{"frame-ancestors 'none', sandbox", "require-trusted-types-for 'script';\tframe-ancestors\t'self' ; frame-ancestors *"}, []string{own + "; frame-ancestors WHO", "frame-ancestors 'none'", "frame-ancestors\t'self'"}},
		"TLS for all":        {[]string{"upgrade-insecure-requests"}, []string{own + "; upgrade-insecure-requests; frame-ancestors WHO"}},
		"nothing that is so": {[]string{"", " ; ,", "x-frame-ancestors 'self'"}, []string{own + "; frame-ancestors WHO"}},
	} {
		for kind, page := range map[string]struct {
			asking option
			who    string
		}{"opens": {navigating(), "'self'"}, "keeps a form": {submitting(urlencoded, "a=b"), "'none'"}} {
			h := newSite(t, keeping(new(clock), middleware.Newcomers))
			resp := send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Security-Policy"] = test.site
				w.Header().Set("Content-Security-Policy-Report-Only", "script-src 'nonce-r4nd0m'; report-uri /csp")
				h.ServeHTTP(w, r)
			}), page.asking)
			want := strings.Split(strings.ReplaceAll(strings.Join(test.want, "\n"), "WHO", page.who), "\n")
			require.Equal(t, want, resp.Header.Values("Content-Security-Policy"), "%s, %s", name, kind)
			require.Empty(t, resp.Header.Values("Content-Security-Policy-Report-Only"))
		}
	}
	t.Run("what is no page of ours keeps it", func(t *testing.T) {
		h := newSite(t, waiting(new(clock), middleware.Newcomers))
		resp := send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", "script-src 'nonce-r4nd0m'")
			h.ServeHTTP(w, r)
		}))
		require.Equal(t, []string{"script-src 'nonce-r4nd0m'"}, resp.Header.Values("Content-Security-Policy"))
	})
}

// How long it takes is one answer, and that of the price; where nothing is for sale it does not speak of work.
func TestPageSaysHowLong(t *testing.T) {
	for work, want := range map[int64]string{
		16: "1 second", 1 << 18: "1 second", 1 << 20: "2 seconds", 1 << 22: "6 seconds", 1 << 24: "25 seconds", 3 << 24: "75 seconds", 1 << 28: "7 minutes", 1 << 29: "13 minutes",
	} {
		cfg := waiting(new(clock), middleware.Newcomers)
		cfg.Challenge.Work = work
		page := bodyOf(t, send(newSite(t, cfg), navigating()))
		require.Contains(t, page, "<span>The calculation takes about "+want+" on a phone.</span>", work)
	}
	cfg := waiting(new(clock), middleware.EveryRequest)
	cfg.Challenge.Work, cfg.Challenge.NonceOnly = 0, true
	require.Contains(t, bodyOf(t, send(newSite(t, cfg), navigating())), "about 1 second on a phone")
	h := newSite(t, waiting(new(clock), middleware.EveryRequest))
	for range 5 * laneQuota {
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)
	}
	page := bodyOf(t, send(h, navigating()))
	require.Contains(t, page, "<p hidden>There are too many requests from your network at the moment. The page then opens by itself.</p>")
	require.NotContains(t, page, "calculation")
}

// Until a script says otherwise, the page is for a browser that runs none: it promises nothing, and one sentence says when
// it is loaded again.
func TestPageBeforeItsScripts(t *testing.T) {
	shown := func(t *testing.T, change func(*middleware.Config)) (text, noscript string) {
		cfg := waiting(new(clock), middleware.Newcomers)
		change(&cfg)
		page := bodyOf(t, send(newSite(t, cfg), navigating()))
		for _, hidden := range regexp.MustCompile(`<p hidden>.*</p>\n`).FindAllString(page, -1) {
			page = strings.Replace(page, hidden, "", 1)
		}
		_, page, _ = strings.Cut(page, "<main>")
		for _, part := range regexp.MustCompile(`<noscript>(.*?)</noscript>`).FindAllStringSubmatch(page, -1) {
			page, noscript = strings.Replace(page, part[0], "", 1), noscript+part[1]
		}
		return page, noscript
	}
	text, noscript := shown(t, func(*middleware.Config) {})
	require.NotContains(t, text, "by itself<")
	require.NotContains(t, text, "calculation")
	require.Contains(t, text, "><p>The check needs JavaScript, and its script has not loaded. Try again in 5 seconds.</p></tally-check>")
	require.Equal(t, "<p>This page loads itself again in 5 seconds.</p>", noscript)
	text, noscript = shown(t, func(c *middleware.Config) { c.Challenge.WaitingRoom, c.Challenge.NoWaitingRoom = 0, true })
	require.Contains(t, text, "><p>The check needs JavaScript, and its script has not loaded.</p></tally-check>")
	require.Empty(t, noscript)
}

// A proxy that takes a prefix from the path, or http.StripPrefix, needs no more than the path that browsers see.
func TestEndpointsBehindAPrefix(t *testing.T) {
	cfg := waiting(new(clock), middleware.Newcomers)
	cfg.Challenge.Path = "/app/tally/wiki/"
	m := newLimiter(t, cfg)
	inside := http.NewServeMux()
	inside.Handle("GET /wiki/", m.Handler(new(spy)))
	inside.Handle("/tally/wiki/", m.Endpoints())
	program := httptest.NewServer(inside)
	t.Cleanup(program.Close)
	target, err := url.Parse(program.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/app")
	}}
	page := bodyOf(t, send(proxy, navigating(), path("/app/wiki/one")))
	files := 0
	for _, tag := range tagsIn(t, page) {
		file := tag.attributes["src"] + tag.attributes["endpoint"]
		if tag.name == "link" {
			file = tag.attributes["href"]
		}
		switch tag.name {
		case "tally-check":
			file += "challenge"
			fallthrough
		case "script", "link":
			files++
			require.Regexp(t, "^/app/tally/wiki/", file)
			require.Equal(t, http.StatusOK, send(proxy, method(http.MethodGet), path(file)).StatusCode, file)
		}
	}
	require.Equal(t, 8, files)

	for name, h := range map[string]http.Handler{
		"/app/tally/wiki": m.Endpoints(), "/app/tally/wiki/": m.Endpoints(), "/app": m.Endpoints(), "": m.Endpoints(),
	} {
		stripped := http.StripPrefix(name, h)
		for _, file := range []string{m.ScriptURL(), "/app/tally/wiki/tally.css", "/app/tally/wiki/challenge", "/app/tally/wiki/ticket"} {
			require.Equal(t, http.StatusOK, send(stripped, method(http.MethodGet), path(file)).StatusCode, "%s, %s", name, file)
		}
	}
	for _, other := range []string{"/", "/app/tally/", "/app/tally/wiki", "/wiki/tally/challenge", "/app/challenge/", "/x/challenge", "/app/tally/wiki//challenge", "/app/tally/wiki/app/tally/wiki/challenge"} {
		require.Equal(t, http.StatusNotFound, send(m.Endpoints(), method(http.MethodGet), path(other)).StatusCode, other)
	}
}
