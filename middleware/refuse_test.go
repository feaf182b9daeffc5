// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/exact"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/handlers"
	"github.com/tallystick/tallystick/proof/kit"
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
		"above the quota":                       func(c *middleware.Config) { c.Cost = func(*http.Request) int64 { return 1000 } },
		"an identity function that cannot tell": func(c *middleware.Config) { c.Identity = nil },
		"no Challenge":                          func(c *middleware.Config) { c.Challenge = nil },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := waiting(new(clock), middleware.Newcomers)
			change(&cfg)
			if name == "above the quota" {
				cfg.Challenge.Mode = middleware.WhenExhausted
			}
			h := newLimiter(t, cfg).Handler(new(spy))
			nobody := func(r *http.Request) {
				if name == "an identity function that cannot tell" {
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
		require.Regexp(t, "; frame-ancestors 'self'$", resp.Header.Get("Content-Security-Policy"), "for browsers that do not say which page frames it")
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

// The page says how long the price takes; where nothing is for sale it does not speak of work.
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
		page := bodyOf(t, send(newSite(t, changed(waiting(new(clock), middleware.Newcomers), change)), navigating()))
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
	m := newLimiter(t, changed(waiting(new(clock), middleware.Newcomers), func(cfg *middleware.Config) { cfg.Challenge.Path = "/app/tally/wiki/" }))
	inside := http.NewServeMux()
	inside.Handle("GET /wiki/", m.Handler(new(spy)))
	inside.Handle("/tally/wiki/", m.Endpoints())
	program := httptest.NewServer(inside)
	t.Cleanup(program.Close)
	target := kit.Must(url.Parse(program.URL))(t)
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

// golden compares a body with a file in testdata. What depends on the jitter of
// Retry-After is written WAIT in the file.
func golden(t *testing.T, name string, resp *http.Response) {
	t.Helper()
	want := kit.Must(os.ReadFile("testdata/" + name))(t)
	body := bodyOf(t, resp)
	requireHeader(t, resp, "Content-Length", strconv.Itoa(len(body)), "X-Content-Type-Options", "nosniff", "Vary", "Accept")
	if wait := resp.Header.Get("Retry-After"); wait != "" {
		body = strings.Replace(body, "in "+wait+" second", "in WAIT second", 1)
	}
	require.Equal(t, string(want), body)
}

func refusal(t *testing.T, reason middleware.Reason, quiet bool, options ...option) *http.Response {
	t.Helper()
	cfg := contact(new(clock))
	cfg.Quiet, cfg.Cost = quiet, costOf
	cfg.Limits = append(cfg.Limits, middleware.Limit{Algorithm: middleware.FixedWindow, Quota: 50, Window: time.Hour})
	switch reason {
	case middleware.CostAboveQuota:
		options = append(options, costing(6))
	case middleware.NegativeCost:
		options = append(options, costing(-1))
	case middleware.IdentityUnknown:
		options = append(options, func(r *http.Request) { r.RemoteAddr = "@" })
	case middleware.IdentityDenied:
		cfg.Identity = func(*http.Request) (middleware.Identity, error) {
			return middleware.Identity{}, &middleware.Denial{Status: http.StatusUnauthorized}
		}
	}
	h := newSite(t, cfg)
	if reason == middleware.OverLimit {
		require.Equal(t, 5, admitted(h, 5))
	}
	h.Spy.Calls.Store(0)
	resp := send(h, options...)
	require.Zero(t, h.Spy.Calls.Load())
	require.Equal(t, reason, h.Decisions.Last().Reason)
	require.Equal(t, resp.StatusCode, h.Decisions.Last().Status)
	require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	return resp
}

func TestRefusals(t *testing.T) {
	const iana = "https://iana.org/assignments/http-problem-types#"
	const ours = "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#"
	for _, test := range []struct {
		reason middleware.Reason
		status int
		kind   string
	}{
		{middleware.OverLimit, 429, iana + "quota-exceeded"},
		{middleware.CostAboveQuota, 403, ours + "cost-above-quota"},
		{middleware.IdentityUnknown, 403, ours + "identity-unknown"},
		{middleware.IdentityDenied, 401, "about:blank"},
		{middleware.NegativeCost, 500, "about:blank"},
	} {
		t.Run(string(test.reason), func(t *testing.T) {
			resp := refusal(t, test.reason, false)
			require.Equal(t, test.status, resp.StatusCode)
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
			golden(t, string(test.reason)+".json", resp)

			var problem struct {
				Type     string
				Title    string
				Status   int
				Detail   string
				Violated []string `json:"violated-policies"`
			}
			decoder := json.NewDecoder(strings.NewReader(bodyOf(t, refusal(t, test.reason, false))))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(&problem))
			require.Equal(t, test.kind, problem.Type)
			require.Equal(t, test.status, problem.Status)
			require.NotEmpty(t, problem.Title)

			page := refusal(t, test.reason, false, with("Accept", "text/html"))
			require.Equal(t, test.status, page.StatusCode)
			require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
			golden(t, string(test.reason)+".html", page)

			quiet := refusal(t, test.reason, true)
			require.Equal(t, test.status, quiet.StatusCode)
			require.NotContains(t, bodyOf(t, quiet), "contact", "no policy is named")
		})
	}
}

// Whatever is wrong with a token, the response is, byte for byte, the one to a request that shows none.
func TestThreatsOfLeaks(t *testing.T) {
	tok, header, payload := handlers.Genuine(t, 5)
	h, _ := limited(t, contact(new(clock)))
	newsletter := contact(new(clock))
	newsletter.Policy = "newsletter"
	n, _ := limited(t, newsletter)
	bad := map[string]string{
		"malformed": "garbage",
		"oversized": tok + strings.Repeat("A", 600),
		"forged":    tok[:len(tok)-10] + "AAAAAAAAAA",
		"foreign":   spend(t, n, 5),
		"expired":   thief(t, header, strings.Replace(payload, `"exp":1`, `"exp":`, 1)),
		"stolen":    spend(t, h, 5, from("198.51.100.1")),
		"odd":       thief(t, header, strings.Replace(payload, `"t":[`, `"t":[[`, 1)),
	}
	for _, accept := range []string{"application/json", "text/html"} {
		response := func(options ...option) (http.Header, string) {
			h, _ := limited(t, contact(new(clock)))
			admitted(h, 5)
			resp := requireStatus(t, http.StatusTooManyRequests, send(h, append(options, with("Accept", accept))...))
			body := strings.Replace(bodyOf(t, resp), "in "+resp.Header.Get("Retry-After"), "in WAIT", 1)
			resp.Header.Del("Retry-After") // has jitter
			return resp.Header, body
		}
		header, body := response()
		for reason, tok := range bad {
			t.Run("T45 "+reason+", "+accept, func(t *testing.T) {
				for _, how := range []option{showing(tok), showingCookie(tok)} {
					gotHeader, gotBody := response(how)
					require.Equal(t, header, gotHeader)
					require.Equal(t, body, gotBody)
				}
			})
		}
	}
	t.Run("T45 no address in a token", func(t *testing.T) {
		for _, plain := range []string{"203.0.113.1", "203", "cb007101", "ywBxAQ"} {
			require.NotContains(t, payload, plain)
		}
	})
	t.Run("T45 an admitted response does not tell either", func(t *testing.T) {
		for reason, tok := range bad {
			h, _ := limited(t, contact(new(clock)))
			without := send(h, from("192.0.2.7"))
			other, _ := limited(t, contact(new(clock)))
			require.Equal(t, without.Header, send(other, from("192.0.2.7"), showing(tok)).Header, reason)
		}
	})
}

// Package httpfield has the rules by which one is preferred.
func TestAcceptNegotiation(t *testing.T) {
	for accept, html := range map[string]bool{"": false, "text/html": true, "text/html, application/problem+json": false} {
		resp := refusal(t, middleware.OverLimit, false, with("Accept", accept))
		require.Equal(t, html, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), "%q", accept)
	}
	resp := refusal(t, middleware.OverLimit, false, with("Accept", "application/json;q=0.1", "Accept", "text/html"))
	require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"), "several lines are one list")
}

// A handler of the program's that sends no status has sent a refusal all the same.
func TestRefusalHandlerWithoutAStatus(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"text":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "later") }, http.StatusTooManyRequests},
		"nothing":          {func(http.ResponseWriter, *http.Request) {}, http.StatusTooManyRequests},
		"flushed":          {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, http.StatusTooManyRequests},
		"a hint before it": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, http.StatusTooManyRequests},
		"a status":         {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, http.StatusOK},
	} {
		for where, set := range map[string]func(*middleware.Config){
			"RefusalHandler": func(cfg *middleware.Config) { cfg.RefusalHandler = test.handler },
			"PageHandler":    func(cfg *middleware.Config) { cfg.PageHandler = test.handler },
		} {
			t.Run(where+", "+name, func(t *testing.T) {
				cfg := contact(new(clock))
				cfg.Limits[0].Quota = 1
				set(&cfg)
				server := serve(t, newLimiter(t, cfg).Handler(new(spy)))
				client := clientAt(t, "127.0.0.1")
				for _, want := range []int{http.StatusOK, test.want} {
					r := kit.Must(http.NewRequest(http.MethodPost, server.URL, http.NoBody))(t)
					r.Header.Set("Accept", "text/html")
					resp := kit.Must(client.Do(r))(t)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, want, resp.StatusCode)
				}
			})
		}
	}
}

// refusedWays are requests that are refused, each with a body of another length that is the same each time.
func refusedWays() [][]option {
	unknown := func(r *http.Request) { r.RemoteAddr = "@" }
	return [][]option{
		{costing(6)},
		{costing(-1)},
		{unknown},
		{costing(6), html},
		{costing(6), html, with("Accept-Language", "de")},
	}
}

// The body of a refusal is made in room that was another's before: each must be whole, and of
// its own request. A ResponseWriter that reads what it was given after Write has returned
// without an error breaks the contract of [io.Writer]: that is none of ours.
func TestBodiesOfRefusalsAtOnce(t *testing.T) {
	const clients, rounds = 64, 20
	cfg := contact(new(clock))
	cfg.Cost = costOf
	var want []string
	for _, way := range refusedWays() {
		want = append(want, bodyOf(t, send(newLimiter(t, cfg).Handler(new(spy)), way...)))
		require.NotEmpty(t, want[len(want)-1])
		require.NotContains(t, want[:len(want)-1], want[len(want)-1])
	}
	h := newLimiter(t, cfg).Handler(new(spy))
	var got [clients][]string
	kit.Together(len(got), func(i int) {
		for j := range rounds {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			from("203.0.113.1")(r)
			for _, option := range refusedWays()[(i+j)%len(want)] {
				option(r)
			}
			h.ServeHTTP(w, r)
			got[i] = append(got[i], w.Body.String())
		}
	})
	for i := range got {
		for j, body := range got[i] {
			require.Equal(t, want[(i+j)%len(want)], body)
		}
	}
}

// A brokenOff is a writer that fails and still has what it was given to send, as net/http's for
// HTTP/2 has when the client resets the stream in the middle of it.
type brokenOff struct {
	sink
	given []byte
}

func (f *brokenOff) Write(b []byte) (int, error) {
	f.given = b
	return 0, errors.New("stream closed")
}

func TestBodyThatWasNotWrittenIsNotUsedAgain(t *testing.T) {
	h := newLimiter(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Cost = costOf })).Handler(new(spy))
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	from("203.0.113.1")(r)
	costing(6)(r)
	for range 100 { // a pool may drop what it is given: then nothing is used again
		w := &brokenOff{sink: sink{Fields: http.Header{}}}
		h.ServeHTTP(w, r)
		was := string(w.given)
		require.Contains(t, was, "cost-above-quota")
		require.Equal(t, http.StatusForbidden, send(h, func(r *http.Request) { r.RemoteAddr = "@" }).StatusCode)
		require.Equal(t, was, string(w.given), "the next client's body is sent to this one")
	}
}

// The response of each Reason has the fields that it must have, and no other.
func TestFieldsOfEachReason(t *testing.T) {
	const (
		policy  = "RateLimit-Policy "
		asked   = policy + "RateLimit " // the limits were
		token   = "Set-Cookie Tallystick-Token "
		refused = "Cache-Control "
		offered = refused + "Tallystick-Challenge "
	)
	var last middleware.Reason
	hear := func(cfg *middleware.Config) {
		cfg.OnDecision = func(_ context.Context, d middleware.Decision) { last = d.Reason }
	}
	plain := func(change func(*middleware.Config, *clock), options ...option) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			now := new(clock)
			cfg := contact(now)
			cfg.Cost = costOf
			change(&cfg, now)
			hear(&cfg)
			h, _ := limited(t, cfg)
			return send(h, options...)
		}
	}
	nobody := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, _ *clock) {
			cfg.Identity = func(*http.Request) (middleware.Identity, error) { return middleware.Identity{}, err }
		}
	}
	failing := func(err error) func(*middleware.Config, *clock) {
		return func(cfg *middleware.Config, now *clock) {
			l := newLedger(now)
			l.Fault = func(context.Context, int) error { return err }
			cfg.Exact = paid(now, l).Exact
		}
	}
	none := func(*middleware.Config, *clock) {}
	selling := func(mode middleware.Mode, play func(*testing.T, *site) *http.Response) func(*testing.T) *http.Response {
		return func(t *testing.T) *http.Response {
			s := newSite(t, changed(challenging(new(clock), mode), func(cfg *middleware.Config) { cfg.MaxClients = 1 }))
			resp := play(t, s)
			last = s.Decisions.Last().Reason
			return resp
		}
	}
	rows := map[middleware.Reason]struct {
		status int
		fields string
		play   func(*testing.T) *http.Response
	}{
		middleware.WithinLimits: {200, asked + token + "Cache-Control", plain(none)},
		middleware.OverLimit: {429, asked + refused + "Tallystick-Token Retry-After", func(t *testing.T) *http.Response {
			h, _ := limited(t, changed(contact(new(clock)), hear))
			older := spend(t, h, 4)
			spend(t, h, 1)
			return send(h, showing(older))
		}},
		middleware.CostAboveQuota:      {403, asked + refused, plain(none, costing(6))},
		middleware.NegativeCost:        {500, refused, plain(none, costing(-1))},
		middleware.IdentityUnknown:     {403, refused, plain(nobody(nil))},
		middleware.IdentityUnavailable: {503, refused + "Retry-After", plain(nobody(middleware.ErrIdentityUnavailable))},
		middleware.IdentityDenied:      {401, refused + "WWW-Authenticate", plain(nobody(&middleware.Denial{Status: 401}))},
		middleware.NoToken:             {403, policy + offered, selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response { return send(s) })},
		middleware.SoldOut: {429, policy + refused + "Retry-After", selling(middleware.Newcomers, func(t *testing.T, s *site) *http.Response {
			s.M.SellOut(midnight, peerIdentity)
			return send(s)
		})},
		middleware.MemoryFull: {403, asked + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) (resp *http.Response) {
			for i := range 40 {
				who := from(strings.Replace("198.N.100.1", "N", string(rune('1'+i%9))+string(rune('0'+i/9)), 1))
				resp = send(s, who, proving(solved(t, fetched(s, who))))
			}
			return resp
		})},
		middleware.ProofReplayed: {403, asked + refused + offered, selling(middleware.EveryRequest, func(t *testing.T, s *site) *http.Response {
			proof := solved(t, fetched(s))
			require.Equal(t, http.StatusOK, send(s, proving(proof)).StatusCode)
			return send(s, proving(proof))
		})},
		middleware.TooManyAtOnce: {429, policy + refused + "Retry-After", func(t *testing.T) (resp *http.Response) {
			m := newLimiter(t, changed(contact(new(clock)), func(cfg *middleware.Config) { cfg.Concurrency = &middleware.Concurrency{Max: 1} }, hear))
			send(m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { resp = send(m.Handler(new(spy))) })))
			return resp
		}},
		middleware.TooEarly:    {425, policy + refused, plain(failing(nil), with("Early-Data", "1"))},
		middleware.Overloaded:  {503, policy + refused + "Retry-After", plain(failing(exact.ErrFull))},
		middleware.CounterDown: {503, policy + refused + "Retry-After Tallystick-Degraded", plain(failing(onFire(t.Context(), 0)))},
	}
	text := kit.Must(os.ReadFile("decision.go"))(t)
	for _, c := range regexp.MustCompile(`\t([A-Z]\w+) +Reason = "(.+)"`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, rows, middleware.Reason(c[2]), "a response of %s", c[1])
	}
	ours := strings.Fields(asked + token + offered + "Retry-After Tallystick-Degraded WWW-Authenticate")
	for reason, row := range rows {
		t.Run(string(reason), func(t *testing.T) {
			resp := row.play(t)
			require.Equal(t, reason, last)
			require.Equal(t, row.status, resp.StatusCode)
			for _, name := range ours {
				require.Equal(t, slices.Contains(strings.Fields(row.fields), name), len(resp.Header.Values(name)) > 0, "%s: %v", name, resp.Header)
			}
		})
	}
}
