// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"bytes"
	"context"
	"crypto/tls"
	entities "html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
	"github.com/tallystick/tallystick/proof/kit"
)

// What people write, and worse.
var letter = []pair{
	{"name", "Ada Lovelace"}, {"tag", "b"}, {"tag", "a"}, {"message", "1 < 2 && \"3\" > '2'\r\n\r\n  yours, é 漢 🙂 \u00a0"},
	{"<script>alert(1)</script>", `"><script src="//evil.example/x.js"></script>`}, {"a&amp;b", "&lt;&#60;&#x3c;&quot;"},
	{"empty", ""}, {"tag", "c"}, {"submit", "Send"}, {"lines", "a\nb\rc\r\n"}, {"tab", "\t\x01\x7f\u0085\ufffd\ufeff"},
}

// The page holds every field, in order, as it was.
func TestKeptFormHoldsTheFields(t *testing.T) {
	inAllModes(t, func(t *testing.T, mode middleware.Mode) {
		h := newSite(t, keeping(new(clock), mode))
		spendShared(t, h, mode)
		program := send(h)
		resp := requireStatus(t, program.StatusCode, send(h, submitting(urlencoded, encoded(letter))))
		require.Equal(t, program.Header.Get("Retry-After") == "", resp.Header.Get("Retry-After") == "")
		requireHeader(t, resp, "Content-Type", "text/html; charset=utf-8", "X-Content-Type-Options", "nosniff", "Cache-Control", "no-store",
			"Vary", "Accept")
		require.NotEmpty(t, waitCookieIn(t, resp))
		page := bodyOf(t, resp)
		fields, secret := fieldsIn(t, page)
		require.Equal(t, letter, fields)
		require.Empty(t, secret)
		require.Contains(t, page, "Try again in 5 seconds.")
	})
}

// Nothing else comes from the request, and nothing is inline.
func TestKeptFormPage(t *testing.T) {
	h := newSite(t, keeping(new(clock), middleware.Newcomers))
	resp := send(h.M.Handler(h.Spy), submitting(urlencoded, encoded(letter)), path("//evil.example/\"><script>"), with("Referer", "https://example.com/form?x=1"))
	require.Equal(t, []string{
		"default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	}, resp.Header.Values("Content-Security-Policy"))
	page := bodyOf(t, resp)
	require.Equal(t, 1, strings.Count(page, "evil.example"), "in a value, and not in the form's action")
	var names []string
	links := map[string][]string{}
	for _, tag := range tagsIn(t, page) {
		if tag.name == "input" {
			continue
		}
		names = append(names, tag.name)
		switch tag.name {
		case "script":
			require.Equal(t, map[string]string{"type": "module", "src": h.M.ScriptURL()}, tag.attributes)
		case "link":
			links[tag.attributes["rel"]] = append(links[tag.attributes["rel"]], tag.attributes["href"])
		case "tally-check":
			require.Equal(t, map[string]string{"endpoint": "/tally/"}, tag.attributes)
		case "form":
			require.Equal(t, map[string]string{"method": "post", "accept-charset": "utf-8"}, tag.attributes, "no action: its own URL")
		case "a":
			require.Equal(t, "/form?x=1", tag.attributes["href"], "the way back")
		}
	}
	folder := strings.TrimSuffix(h.M.ScriptURL(), "tally.js")
	require.Equal(t, []string{folder + "fetch.js", folder + "texts.js", folder + "solver.js"}, links["modulepreload"])
	sheets := links["stylesheet"]
	require.Len(t, sheets, 2)
	require.Len(t, links, 2)
	require.Regexp(t, `^/tally/[0-9a-f]{16}/page\.css$`, sheets[0])
	require.Equal(t, h.M.StyleURL(), sheets[1])
	sheet := send(h, method("GET"), path(sheets[0]))
	require.Equal(t, "text/css; charset=utf-8", sheet.Header.Get("Content-Type"))
	require.Contains(t, bodyOf(t, sheet), "color-scheme:light dark")
	require.Equal(t, strings.Fields(`!doctype html meta meta meta link link script /script link link link title /title main p /p h1 /h1 p /p
		form tally-check p /p /tally-check p button /button /p /form p a /a /p /main`), names)

	t.Run("in the language of the browser", func(t *testing.T) {
		german := bodyOf(t, send(h, submitting(urlencoded, "a=b"), with("Accept-Language", "de-CH,de;q=0.9,en;q=0.8")))
		require.Contains(t, german, `<html lang="de">`)
		require.Contains(t, german, "<button>Erneut senden</button>")
		multipart := submitting("multipart/form-data; boundary=x", "")
		require.Contains(t, bodyOf(t, send(h, multipart, with("Accept-Language", "de"))), "Bitte gehen Sie zurück")
	})
	t.Run("without Path there is no script", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Challenge.Path = ""
		page := bodyOf(t, send(newSite(t, cfg), submitting(urlencoded, "a=b")))
		require.NotContains(t, page, "script")
		require.NotContains(t, page, "tally-check")
		require.Contains(t, page, "<p>Try again in 5 seconds.</p>")
	})
	t.Run("in other sites' frames", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.EmbeddedCookie = true
		resp := send(newSite(t, cfg), submitting(urlencoded, "a=b"))
		require.NotContains(t, resp.Header.Get("Content-Security-Policy"), "frame-ancestors")
	})
	t.Run("over a limit", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.WhenExhausted)
		cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true
		h := newSite(t, cfg)
		spendShared(t, h, middleware.WhenExhausted)
		resp := requireStatus(t, http429, send(h, submitting(urlencoded, "a=b")))
		page := bodyOf(t, resp)
		require.Contains(t, page, "too many requests from your network")
		require.Contains(t, page, "Try again in 6")
	})
	t.Run("nothing but work helps", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Challenge.WaitingRoom, cfg.Challenge.NoWaitingRoom = 0, true
		page := bodyOf(t, send(newSite(t, cfg), submitting(urlencoded, "a=b")))
		require.Contains(t, page, `<tally-check endpoint="/tally/"><p>The check needs JavaScript, and its script has not loaded.</p></tally-check>`)
		cfg.Challenge.Path = ""
		fields, _ := fieldsIn(t, bodyOf(t, send(newSite(t, cfg), submitting(urlencoded, "a=b"))))
		require.Empty(t, fields, "there is nothing to offer: the built-in page")
	})
}

// Secrets are asked for again, in their place. TestSecretNames of package keptform has the names.
func TestSecretFields(t *testing.T) {
	for body, secrets := range map[string][]string{
		"a=1&new_password=hunter2&b=2":  {"new_password"},
		"new_password=&a=b":             nil, // one that was left empty is no secret
		"csrf_token=x&shipping=x&pin=1": {"pin"},
	} {
		page := kept(t, body)
		fields, secret := fieldsIn(t, page)
		require.Equal(t, secrets, secret, body)
		var want []pair
		for part := range strings.SplitSeq(body, "&") {
			name, value, _ := strings.Cut(part, "=")
			if slices.Contains(secrets, name) {
				value = ""
			}
			want = append(want, pair{name, value})
		}
		require.Equal(t, want, fields)
		require.NotContains(t, page, "hunter2")
	}
	t.Run("names of the program's own", func(t *testing.T) {
		page := kept(t, "maiden=Byron&password=x&name=Ada", func(i *keptform.Handler) {
			i.Secret = func(name string) bool { return name == "maiden" }
		})
		_, secret := fieldsIn(t, page)
		require.Equal(t, []string{"maiden", "password"}, secret)
		require.NotContains(t, page, "Byron")
	})
}

// Where nothing is for sale the page has the script all the same, which waits.
func TestKeptFormWhereNothingIsForSale(t *testing.T) {
	h := newSite(t, keeping(new(clock), middleware.EveryRequest))
	for range 5 * laneQuota {
		require.Equal(t, http.StatusOK, send(h, proving(solved(t, fetched(h)))).StatusCode)
	}
	resp := requireStatus(t, http429, send(h, submitting(urlencoded, "a=b")))
	require.Empty(t, resp.Header.Get(middleware.ChallengeHeader))
	page := bodyOf(t, resp)
	require.Contains(t, page, `<tally-check endpoint="/tally/"><p>Try again in 5 seconds.</p></tally-check>`)
}

// lines are the line breaks that browsers send, whatever a form holds.
var lines = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")

// FuzzKeptForm: whatever is posted, the page is made of the tags that it has without fields and one input for
// each; what a browser reads in them, and sends again, is what net/url had found in the body, in order; and the page
// that this is answered with is the same again.
func FuzzKeptForm(f *testing.F) {
	h, _ := limited(f, keeping(new(clock), middleware.Newcomers))
	skeleton := func(t *testing.T, page string) string {
		var names []string
		for _, tag := range tagsIn(t, page) {
			if tag.attributes["type"] == "password" {
				require.Equal(t, []string{"p", "label"}, names[len(names)-2:])
				names = names[:len(names)-2]
			}
			if tag.name != "input" {
				names = append(names, tag.name)
			}
		}
		return strings.ReplaceAll(strings.Join(names, " ")+" ", "/label /p ", "")
	}
	post := func(t *testing.T, body string) string {
		resp := requireStatus(t, 403, send(h, submitting(urlencoded, body)))
		page := bodyOf(t, resp)
		require.LessOrEqual(t, len(page), 2*len(body)+8<<10)
		require.True(t, utf8.ValidString(page))
		return page
	}
	// A program may call any field secret, and the page says its name. A way back may lead
	// anywhere that a URL can name.
	var cfg = keeping(new(clock), middleware.Newcomers, func(i *keptform.Handler) { i.Secret = func(string) bool { return true } })
	all, _ := limited(f, cfg)
	secretive := func(t *testing.T, body string) {
		for _, language := range []string{"en", "fr", "ja"} {
			page := bodyOf(t, send(all, submitting(urlencoded, body), with("Accept-Language", language, "Referer", "https://example.com/?"+body)))
			for _, tag := range tagsIn(t, page) {
				require.Contains(t, []string{
					"!doctype", "html", "meta", "link", "script", "/script", "title", "/title", "main", "/main", "h1", "/h1", "p", "/p", "form", "/form",
					"label", "/label", "input", "tally-check", "/tally-check", "noscript", "/noscript", "button", "/button", "a", "/a",
				}, tag.name)
				if tag.name == "a" {
					require.NotRegexp(t, `^(//|/\\\\|[^/])`, tag.attributes["href"])
					require.LessOrEqual(t, len(tag.attributes["href"]), 2048)
				}
				if tag.name == "script" {
					require.Regexp(t, `^/tally/[0-9a-f]{16}/tally\.js$`, tag.attributes["src"])
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		secretive(t, body)
		page := post(t, body)
		values, err := url.ParseQuery(body)
		if !strings.Contains(page, "<form") {
			require.NotContains(t, page, "<input")
			bad := err != nil || len(body) > 64<<10 || strings.Count(body, "&") >= 100 || len(body) > 2<<10 || strings.ContainsAny(body, "'\"<>") || strings.Contains(strings.ToLower(body), "charset") || values.Has("")
			for name, all := range values {
				for _, text := range append(all, name) {
					bad = bad || !utf8.ValidString(text) || strings.Contains(text, "\x00")
				}
			}
			require.True(t, bad, "a good form is not held")
			return
		}
		require.NoError(t, err)
		require.Equal(t, skeleton(t, post(t, "")), skeleton(t, page))
		fields, secret := fieldsIn(t, page)
		var want []pair
		for part := range strings.SplitSeq(body, "&") {
			one := kit.Must(url.ParseQuery(part))(t)
			for name, value := range one {
				want = append(want, pair{name, value[0]})
			}
		}
		require.Len(t, fields, len(want))
		for i := range want {
			require.Equal(t, want[i].name, fields[i].name)
			if len(secret) > 0 && secret[0] == want[i].name && fields[i].value == "" {
				secret, fields[i].value = secret[1:], want[i].value // it is typed again
			}
			require.Equal(t, want[i].value, fields[i].value)
			fields[i] = pair{lines.Replace(fields[i].name), lines.Replace(fields[i].value)}
		}
		require.Empty(t, secret)
		again, _ := fieldsIn(t, post(t, encoded(fields)))
		require.Len(t, again, len(fields))
	})
}

type pair struct{ name, value string }

// encoded is what a browser sends for the fields of a form.
func encoded(fields []pair) string {
	var parts []string
	for _, f := range fields {
		parts = append(parts, url.QueryEscape(f.name)+"="+url.QueryEscape(f.value))
	}
	return strings.Join(parts, "&")
}

const urlencoded = "application/x-www-form-urlencoded"

// submitting is what a browser sends for a form, from a page of the same origin.
func submitting(contentType, body string) option {
	return func(r *http.Request) {
		with("Accept", "text/html,*/*;q=0.8", "Content-Type", contentType, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate")(r)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

// keeping is a site whose forms are kept.
func keeping(c *clock, mode middleware.Mode, change ...func(*keptform.Handler)) middleware.Config {
	cfg := waiting(c, mode)
	var i keptform.Handler
	for _, change := range change {
		change(&i)
	}
	cfg.PageHandler = i
	return cfg
}

// A tag of a page, with its attributes as a browser reads them.
type tag struct {
	name       string
	attributes map[string]string
}

// tagsIn reads a page: an oracle that knows as much of HTML as there is in ours.
// Whatever it does not know fails the test.
func tagsIn(t testing.TB, page string) (tags []tag) {
	t.Helper()
	page = strings.ReplaceAll(strings.ReplaceAll(page, "\r\n", "\n"), "\r", "\n") // as parsers do
	for {
		_, after, found := strings.Cut(page, "<")
		if !found {
			return tags
		}
		end := strings.IndexAny(after, " >\n")
		require.Positive(t, end, "a tag in %q", after)
		one := tag{after[:end], map[string]string{}}
		page = after[end:]
		for page[0] != '>' {
			page = page[1:]
			stop := strings.IndexAny(page, "=> ")
			require.Positive(t, stop, "an attribute of %s in %q", one.name, page)
			name := page[:stop]
			require.Regexp(t, `^[a-z-]+$`, name)
			require.NotContains(t, one.attributes, name)
			one.attributes[name] = ""
			if page = page[stop:]; page[0] == '=' {
				require.Equal(t, byte('"'), page[1], "a value without quotes")
				value, rest, found := strings.Cut(page[2:], `"`)
				require.True(t, found)
				require.NotContains(t, value, "<")
				one.attributes[name], page = entities.UnescapeString(value), rest
			}
			require.NotEmpty(t, page)
		}
		page = page[1:]
		tags = append(tags, one)
	}
}

// fieldsIn returns the inputs of a page: those that are filled in and, apart, the names of those that are to be.
func fieldsIn(t testing.TB, page string) (all []pair, secret []string) {
	t.Helper()
	for _, tag := range tagsIn(t, page) {
		if tag.name != "input" {
			continue
		}
		switch tag.attributes["type"] {
		case "hidden":
			require.Len(t, tag.attributes, 3)
		case "password":
			require.NotContains(t, tag.attributes, "value")
			require.Contains(t, tag.attributes, "required")
			secret = append(secret, tag.attributes["name"])
		default:
			require.Fail(t, "an input of type "+tag.attributes["type"])
		}
		all = append(all, pair{tag.attributes["name"], tag.attributes["value"]})
	}
	return all, secret
}

type counted struct {
	bytes.Reader
	read int
}

func newCounted(body string) *counted {
	c := new(counted)
	c.Reset([]byte(body))
	return c
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += n
	return n, err
}

func (c *counted) Close() error { return nil }

// kept is what a new site whose forms are kept answers to a form: its page.
func kept(t testing.TB, body string, change ...func(*keptform.Handler)) string {
	t.Helper()
	return bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers, change...)), submitting(urlencoded, body)))
}

// What cannot be held as it was is not held at all. TestWhatIsNotKept has what else is not.
func TestFormsThatAreNotHeld(t *testing.T) {
	many := encoded(slices.Repeat([]pair{{"a", "b"}}, 101))
	for name, test := range map[string]struct {
		contentType, body, says string
	}{
		"multipart":               {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nsecretive\r\n--x--\r\n", "This kind of form"},
		"multipart, no boundary":  {"multipart/form-data", "secretive", "This kind of form"},
		"too long":                {urlencoded, "a=" + strings.Repeat("b", 64<<10-1), "too long"},
		"too many secrets":        {urlencoded, strings.Repeat("pin=1&", 80), "too long"},
		"more than twice as long": {urlencoded, "a=" + strings.Repeat("'", 4<<10), "too long"},
		"broken escape":           {urlencoded, "a=%4", "cannot keep"},
		"another charset":         {urlencoded + "; charset=iso-8859-1", "a=b", "cannot keep"},
		"broken parameters":       {urlencoded + "; charset", "a=b", "cannot keep"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, keeping(new(clock), middleware.Newcomers))
			resp := requireStatus(t, http.StatusForbidden, send(h, submitting(test.contentType, test.body)))
			require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
			require.Len(t, resp.Header.Values("Content-Security-Policy"), 1)
			require.NotEmpty(t, waitCookieIn(t, resp))
			page := bodyOf(t, resp)
			require.Contains(t, page, test.says)
			require.Contains(t, page, "Please go back")
			require.Contains(t, page, "Try again in 5 seconds.")
			require.NotContains(t, page, "<form")
			require.NotContains(t, page, "secretive")
		})
	}
	held := func(t *testing.T, options ...option) bool {
		return strings.Contains(bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers)), options...)), "<form")
	}
	t.Run("as much as is allowed", func(t *testing.T) {
		for _, body := range []string{
			"a=" + strings.Repeat("b", 64<<10-2), strings.TrimSuffix(many, "&a=b"), strings.Repeat("n", 256) + "=b",
			strings.Repeat(strings.Repeat("n", 128)+"=b&", 16), strings.Repeat("pin=1&", 20), "a=" + strings.Repeat("%22", 21<<10), // as browsers write it
			"",
		} {
			require.Contains(t, kept(t, body), "<form", "%.40q", body)
		}
		require.True(t, held(t, submitting(urlencoded+"; charset=UTF-8", "a=b&_charset_=UTF-8&&")))
	})
	t.Run("length not announced", func(t *testing.T) {
		unknown := func(r *http.Request) { r.ContentLength = -1 }
		require.True(t, held(t, submitting(urlencoded, "a=b"), unknown))
		require.False(t, held(t, submitting(urlencoded, "a="+strings.Repeat("b", 64<<10)), unknown))
	})
	t.Run("shorter than announced", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) { r.ContentLength = 9 }))
	})
	t.Run("compressed", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), with("Content-Encoding", "gzip")))
	})
	t.Run("parsed before", func(t *testing.T) {
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) { require.NoError(t, r.ParseForm()) }))
		require.False(t, held(t, submitting(urlencoded, "a=b"), func(r *http.Request) {
			require.NoError(t, r.ParseForm())
			r.ContentLength = -1
		}))
	})
	t.Run("MaxBody", func(t *testing.T) {
		five := func(i *keptform.Handler) { i.MaxBody = 5 }
		require.Contains(t, kept(t, "a=bcd", five), "<form")
		require.Contains(t, kept(t, "a=bcde", five), "too long")
	})
}

// What is no form of a browser gets the page that it would get without.
func TestKeptFormLeavesTheRestAlone(t *testing.T) {
	form := submitting(urlencoded, "a=b")
	replace := func(name string, values ...string) option {
		return func(r *http.Request) { r.Header[name] = values }
	}
	for name, options := range map[string][]option{
		"GET":                    {form, method("GET")},
		"HEAD":                   {form, method("HEAD")},
		"PUT":                    {form, method("PUT")},
		"JSON":                   {submitting("application/json", `{"a":"b"}`)},
		"text":                   {submitting("text/plain", "a=b")},
		"no type":                {form, replace("Content-Type")},
		"two types":              {form, replace("Content-Type", urlencoded, urlencoded)},
		"a script's own request": {form, replace("Sec-Fetch-Mode", "cors")},
		"multipart by a script":  {submitting("multipart/form-data; boundary=x", ""), replace("Sec-Fetch-Mode", "same-origin")},
	} {
		t.Run(name, func(t *testing.T) {
			plain := newSite(t, waiting(new(clock), middleware.Newcomers))
			kept := newSite(t, keeping(new(clock), middleware.Newcomers))
			want, got := send(plain, options...), send(kept, options...)
			require.Equal(t, want.StatusCode, got.StatusCode)
			require.Equal(t, want.Header.Get("Content-Type"), got.Header.Get("Content-Type"))
			if isPage := got.Header.Get("Content-Type") == "text/html; charset=utf-8"; isPage {
				require.Equal(t, strings.ReplaceAll(bodyOf(t, want), challengeIn(t, want).Text, "…"), strings.ReplaceAll(bodyOf(t, got), challengeIn(t, got).Text, "…"))
			} else {
				require.Equal(t, middleware.NoToken, problemIn(t, got).Reason)
			}
			require.Equal(t, want.Header.Values("Content-Security-Policy"), got.Header.Values("Content-Security-Policy"))
			own := newSite(t, keeping(new(clock), middleware.Newcomers, func(i *keptform.Handler) {
				i.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			}))
			require.Equal(t, http.StatusTeapot, send(own, options...).StatusCode)
		})
	}
	t.Run("programs", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, submitting(urlencoded, "a=b"), replace("Accept", "*/*"))).Reason)
	})
	t.Run("programs, as Config.RefusalHandler", func(t *testing.T) {
		h := newSite(t, changed(waiting(new(clock), middleware.Newcomers), func(cfg *middleware.Config) { cfg.RefusalHandler = keptform.Handler{} }))
		require.Equal(t, middleware.NoToken, problemIn(t, send(h)).Reason)
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, form, replace("Accept", "*/*"))).Reason)
		require.Contains(t, bodyOf(t, send(h, form)), "<form")
	})
	t.Run("refusals that sending again does not change", func(t *testing.T) {
		h := newSite(t, changed(keeping(new(clock), middleware.Newcomers), func(cfg *middleware.Config) { cfg.Cost = costOf }))
		own := bought(t, h)
		page := bodyOf(t, send(h, form, costing(100), showing(own)))
		require.Contains(t, page, "This page cannot be opened")
	})
	t.Run("admitted", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		ticket := waitCookieIn(t, send(h, form))
		now.Advance(5 * time.Second)
		require.Equal(t, "ok", bodyOf(t, send(h, form, holding(ticket))))
	})
	t.Run("a page of no site", func(t *testing.T) {
		require.Equal(t, http.StatusInternalServerError, send(keptform.Handler{}).StatusCode)
	})
}

func TestThreatsOfKeptForms(t *testing.T) {
	const words = "transfer-all"
	body := "order=" + words
	held := func(t *testing.T, options ...option) bool {
		t.Helper()
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		read := newCounted(body)
		resp := send(h, append([]option{with("Accept", "text/html", "Content-Type", urlencoded), func(r *http.Request) {
			r.Host, r.Body, r.ContentLength = "site.example", read, int64(len(body))
		}}, options...)...)
		require.Equal(t, http.StatusForbidden, resp.StatusCode)
		page := bodyOf(t, resp)
		require.Equal(t, strings.Contains(page, "<form"), strings.Contains(page, words))
		if !strings.Contains(page, "<form") {
			require.Zero(t, read.read, "not even read")
			require.Contains(t, page, "a short check", "the plain page")
		}
		return strings.Contains(page, words)
	}
	overTLS := func(r *http.Request) { r.TLS = new(tls.ConnectionState) }
	t.Run("T23 another site's form is not made our own", func(t *testing.T) {
		for name, test := range map[string]struct {
			held    bool
			options []option
		}{
			"same-origin":                      {true, []option{with("Sec-Fetch-Site", "same-origin")}},
			"same-origin, no referrer":         {true, []option{with("Sec-Fetch-Site", "same-origin", "Origin", "null")}},
			"same-site":                        {false, []option{with("Sec-Fetch-Site", "same-site")}},
			"cross-site":                       {false, []option{with("Sec-Fetch-Site", "cross-site")}},
			"cross-site, with our Origin":      {false, []option{with("Sec-Fetch-Site", "cross-site", "Origin", "https://site.example")}},
			"none":                             {false, []option{with("Sec-Fetch-Site", "none")}},
			"empty":                            {false, []option{with("Sec-Fetch-Site", "")}},
			"both":                             {false, []option{with("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site")}},
			"a list":                           {false, []option{with("Sec-Fetch-Site", "same-origin, cross-site")}},
			"nothing said":                     {false, nil},
			"Origin ours":                      {true, []option{with("Origin", "http://site.example")}},
			"Origin ours, behind a TLS proxy":  {true, []option{with("Origin", "https://site.example")}},
			"Origin ours, over TLS":            {true, []option{with("Origin", "https://site.example"), overTLS}},
			"Origin ours but for TLS":          {false, []option{with("Origin", "http://site.example"), overTLS}},
			"Origin another's":                 {false, []option{with("Origin", "https://evil.example")}},
			"Origin of a name like ours":       {false, []option{with("Origin", "https://site.example.evil.example")}},
			"Origin of our sibling":            {false, []option{with("Origin", "https://www.site.example")}},
			"Origin of another port":           {false, []option{with("Origin", "https://site.example:8443")}},
			"Origin null":                      {false, []option{with("Origin", "null")}},
			"Origin empty":                     {false, []option{with("Origin", "")}},
			"Origin without scheme":            {false, []option{with("Origin", "site.example")}},
			"Origin of another scheme":         {false, []option{with("Origin", "ftp://site.example")}},
			"two Origins":                      {false, []option{with("Origin", "https://site.example", "Origin", "https://evil.example")}},
			"Origin that is no URL":            {false, []option{with("Origin", "https://site.example:x")}},
			"no Host, no Origin to speak of":   {false, []option{with("Origin", "https://"), func(r *http.Request) { r.Host = "" }}},
			"Referer alone, which may be gone": {false, []option{with("Referer", "https://site.example/form")}},
		} {
			require.Equal(t, test.held, held(t, test.options...), name)
		}
	})
	t.Run("T23 nor another site's multipart form told of", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		resp := send(h, submitting("multipart/form-data; boundary=x", ""), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
		require.NotContains(t, bodyOf(t, resp), "This kind of form")
	})
	t.Run("T44 the decision reads no body, and the page a bounded part", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		huge := strings.Repeat("a=b&", 1<<20)
		var seen int
		cfg := keeping(now, middleware.Newcomers)
		read := newCounted(huge)
		cfg.OnDecision = func(context.Context, middleware.Decision) { seen = read.read }
		m := newLimiter(t, cfg).Handler(h.Spy)
		send(m, submitting(urlencoded, ""), func(r *http.Request) { r.Body, r.ContentLength = read, -1 })
		require.Zero(t, seen)
		require.LessOrEqual(t, read.read, 64<<10+1)
		announced := newCounted(huge)
		send(m, submitting(urlencoded, ""), func(r *http.Request) { r.Body, r.ContentLength = announced, int64(len(huge)) })
		require.Zero(t, announced.read)
	})
	t.Run("T24 no cache keeps the page", func(t *testing.T) {
		resp := send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, body))
		require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
	})
	t.Run("the page is no larger than it says", func(t *testing.T) {
		for _, value := range []string{strings.Repeat("'", 64<<10-2), strings.Repeat(`"`, 64<<10-2), strings.Repeat("&", 3), strings.Repeat("\u00e9", 10)} {
			resp := send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, "a="+value))
			require.Less(t, len(bodyOf(t, resp)), 6*64<<10)
		}
		short := strings.TrimSuffix(strings.Repeat("a&", 500), "&")
		require.Less(t, len(bodyOf(t, send(newSite(t, keeping(new(clock), middleware.Newcomers)), submitting(urlencoded, short)))), 64<<10)
	})
}
