// SPDX-License-Identifier: Apache-2.0

package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/middleware/keptform"
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
	resp := send(h.M.Handler(h.Spy), submitting(urlencoded, encoded(letter)), path("//evil.example/\"><script>"))
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
		form tally-check p /p /tally-check p button /button /p /form /main`), names)

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

// Secrets are asked for again, in their place; what only sounds like one is kept.
func TestSecretFields(t *testing.T) {
	for _, name := range []string{
		"password", "Password", "PASSWORD", "password2", "password_confirmation", "user[password]", "newPassword", "pass", "user-pass", "passwd",
		"pwd", "pwd1", "myPwd", "passphrase", "passcode", "Kennwort", "passwort", "mot_de_passe", "senha", "contraseña",
		"pin", "PIN", "user_pin", "pin2", "pinCode", "otp", "otp-code", "one_time_otp", "totp", "2fa", "mfa", "cvv", "cvv2", "CVC", "card_cvc", "csc", "cc-csc",
		"card", "card[number]", "cardNumber", "cardnumber", "card-no", "cc-number", "ccNum", "cc_no", "creditCard", "credit_card_number", "security_code", "secret", "ssn",
	} {
		page := kept(t, encoded([]pair{{"a", "1"}, {name, "hunter2"}, {"b", "2"}}))
		fields, secret := fieldsIn(t, page)
		require.Equal(t, []string{name}, secret)
		require.Equal(t, []pair{{"a", "1"}, {name, ""}, {"b", "2"}}, fields)
		require.NotContains(t, page, "hunter2")
	}
	for _, name := range []string{
		"name", "shipping", "opinion", "spinner", "discard", "postcards", "compass", "passenger", "bypass", "csrf_token", "authenticity_token",
		"discount", "account_number", "acc_num", "success", "cc", "utf8", "_method", "description", "hotpot", "wildcard", "é", "123",
	} {
		fields, secret := fieldsIn(t, kept(t, encoded([]pair{{name, "x"}})))
		require.Empty(t, secret, name)
		require.Equal(t, []pair{{name, "x"}}, fields)
	}
	t.Run("one that was left empty is no secret", func(t *testing.T) {
		fields, secret := fieldsIn(t, kept(t, "new_password=&a=b"))
		require.Empty(t, secret)
		require.Equal(t, []pair{{"new_password", ""}, {"a", "b"}}, fields)
	})
	t.Run("names of the program's own", func(t *testing.T) {
		page := kept(t, "maiden=Byron&password=x&name=Ada", func(i *keptform.Handler) {
			i.Secret = func(name string) bool { return name == "maiden" }
		})
		_, secret := fieldsIn(t, page)
		require.Equal(t, []string{"maiden", "password"}, secret)
		require.NotContains(t, page, "Byron")
	})
	t.Run("a name is escaped in its label too", func(t *testing.T) {
		page := kept(t, encoded([]pair{{`"><script>password`, "x"}}))
		_, secret := fieldsIn(t, page)
		require.Equal(t, []string{`"><script>password`}, secret)
		require.Equal(t, 1, strings.Count(page, "<script"))
	})
}

// The whole way, over TLS and with a jar: what arrives in the end is what was
// written, and the password that was typed again.
func TestFormWithoutJavaScript(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			cfg := keeping(now, mode)
			cfg.Limits[0].Quota = 5
			cfg.Limits[0].Window = time.Hour
			m := newLimiter(t, cfg)
			var got [][]pair
			url, client := browser(t, m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				fields := []pair{{"the query", r.URL.RawQuery}}
				for _, name := range []string{"name", "tag", "message", "password"} {
					r.PostFormValue(name) // parses
					for _, value := range r.PostForm[name] {
						fields = append(fields, pair{name, value})
					}
				}
				got = append(got, fields)
			})))
			submit := func(fields []pair) (status int, page string) {
				r, err := http.NewRequest(http.MethodPost, url+"/form?x=1", strings.NewReader(encoded(fields)))
				require.NoError(t, err)
				for name, value := range map[string]string{
					"Accept": "text/html,*/*;q=0.8", "Content-Type": urlencoded, "Origin": url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate",
				} {
					r.Header.Set(name, value)
				}
				resp, err := client.Do(r)
				require.NoError(t, err)
				return resp.StatusCode, bodyOf(t, resp)
			}
			status := func(status int, _ string) int { return status }
			written := []pair{{"name", "Ada"}, {"tag", "b"}, {"tag", "a"}, {"message", "1 < 2\r\n\"&amp;\""}, {"password", "hunter2"}}
			if mode == middleware.WhenExhausted {
				for range 5 {
					require.Equal(t, http.StatusOK, status(submit(written)))
				}
				got = nil
			}
			for early := range 2 {
				status, page := submit(written)
				require.GreaterOrEqual(t, status, 400)
				fields, secret := fieldsIn(t, page)
				require.Equal(t, []string{"password"}, secret)
				require.Len(t, fields, len(written))
				fields[4].value = "hunter2"
				require.Equal(t, written, fields)
				now.Advance(time.Duration(early) * 5 * time.Second)
			}
			require.Equal(t, http.StatusOK, status(submit(written)))
			require.Equal(t, [][]pair{append([]pair{{"the query", "x=1"}}, written...)}, got)
			require.GreaterOrEqual(t, status(submit(written)), 400, "one in five")
		})
	}
}

// The page speaks the language of the browser, or that of the site where the program has said which that is.
func TestKeptFormSpeaks(t *testing.T) {
	h := newSite(t, keeping(new(clock), middleware.Newcomers))
	german := with("Accept-Language", "de-CH,de;q=0.9,en;q=0.8")
	page := func(h http.Handler, contentType, body string) string {
		return bodyOf(t, send(h, submitting(contentType, body), german))
	}
	kept := page(h, urlencoded, "password=x&a=b")
	for _, part := range []string{
		`<html lang="de">`, "<title>Noch nicht gesendet – example.com</title>", "kurz geprüft", "Passwort (bitte noch einmal eingeben)",
		"Bitte in 5 Sekunden erneut senden.", "<button>Erneut senden</button>",
	} {
		require.Contains(t, kept, part)
	}
	require.Contains(t, page(h, "multipart/form-data; boundary=x", ""), "Bitte gehen Sie zurück")
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Language", "fr")
		h.ServeHTTP(w, r)
	})
	require.Contains(t, page(site, urlencoded, "a=b"), "Pas encore envoyé")
}

// There is a way back to where the form came from.
func TestKeptFormLeadsBack(t *testing.T) {
	h := newSite(t, keeping(new(clock), middleware.Newcomers))
	back := func(referer string) string {
		for _, tag := range tagsIn(t, bodyOf(t, send(h, submitting(urlencoded, "a=b"), with("Referer", referer)))) {
			if tag.name == "a" {
				return tag.attributes["href"]
			}
		}
		return ""
	}
	require.Equal(t, "/form?x=1", back("https://example.com/form?x=1"))
	require.Empty(t, back("https://evil.example/form"))
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
