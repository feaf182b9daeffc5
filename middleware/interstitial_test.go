package middleware_test

import (
	"crypto/tls"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
)

// What people write, and worse.
var letter = []pair{
	{"name", "Ada Lovelace"}, {"tag", "b"}, {"tag", "a"}, {"message", "1 < 2 && \"3\" > '2'\r\n\r\n  yours, é 漢 🙂 \u00a0"},
	{"<script>alert(1)</script>", `"><script src="//evil.example/x.js"></script>`}, {"a&amp;b", "&lt;&#60;&#x3c;&quot;"},
	{"empty", ""}, {"tag", "c"}, {"submit", "Send"}, {"lines", "a\nb\rc\r\n"}, {"tab", "\t\x01\x7f\u0085\ufffd\ufeff"},
}

// The page holds every field, in order, as it was.
func TestInterstitialHoldsTheForm(t *testing.T) {
	for name, mode := range allModes {
		t.Run(name, func(t *testing.T) {
			now := new(clock)
			h := newSite(t, keeping(now, mode))
			spendShared(t, h, mode)
			program := send(h)
			resp := send(h, submitting(urlencoded, encoded(letter)))
			require.Equal(t, program.StatusCode, resp.StatusCode)
			require.Equal(t, program.Header.Get("Retry-After") == "", resp.Header.Get("Retry-After") == "")
			require.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
			require.Equal(t, []string{"no-store"}, resp.Header.Values("Cache-Control"))
			require.Equal(t, []string{"Accept"}, resp.Header.Values("Vary"))
			require.NotEmpty(t, waitCookieIn(t, resp))
			page := bodyOf(t, resp)
			fields, secret := fieldsIn(t, page)
			require.Equal(t, letter, fields)
			require.Empty(t, secret)
			require.Contains(t, page, "Try again in 5 seconds.")
		})
	}
}

// Nothing else comes from the request, and nothing is inline.
func TestInterstitialPage(t *testing.T) {
	h, _ := limited(t, keeping(new(clock), middleware.Newcomers))
	resp := send(h, submitting(urlencoded, encoded(letter)), path("//evil.example/\"><script>"))
	require.Equal(t, []string{
		"default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	}, resp.Header.Values("Content-Security-Policy"))
	page := bodyOf(t, resp)
	require.Equal(t, 1, strings.Count(page, "evil.example"), "in a value, and not in the form's action")
	var names []string
	for _, tag := range tagsIn(t, page) {
		if tag.name == "input" {
			continue
		}
		names = append(names, tag.name)
		switch tag.name {
		case "script":
			require.Equal(t, map[string]string{"type": "module", "src": "/tally/tally.js"}, tag.attributes)
		case "link":
			require.Equal(t, map[string]string{"rel": "stylesheet", "href": "/tally/tally.css"}, tag.attributes)
		case "tally-check":
			require.Equal(t, map[string]string{"endpoint": "/tally/"}, tag.attributes)
		case "form":
			require.Equal(t, map[string]string{"method": "post", "accept-charset": "utf-8"}, tag.attributes, "no action: its own URL")
		}
	}
	require.Equal(t, strings.Fields(`!doctype html meta meta meta link script /script title /title h1 /h1 p /p
		form tally-check /tally-check noscript p /p /noscript p button /button /p /form`), names)

	t.Run("without Path there is no script", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Challenge.Path = ""
		page := bodyOf(t, send(newSite(t, cfg), submitting(urlencoded, "a=b")))
		require.NotContains(t, page, "script")
		require.NotContains(t, page, "tally-check")
		require.Contains(t, page, "<p>Try again in 5 seconds.</p>")
	})
	t.Run("with a policy set outside, both hold", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		resp := send(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
			h.ServeHTTP(w, r)
		}), submitting(urlencoded, "a=b"))
		require.Len(t, resp.Header.Values("Content-Security-Policy"), 2)
	})
	t.Run("in other sites' frames", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.EmbeddedCookie = true
		resp := send(newSite(t, cfg), submitting(urlencoded, "a=b"))
		require.NotContains(t, resp.Header.Get("Content-Security-Policy"), "frame-ancestors")
	})
	t.Run("over a limit", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.WhenExhausted)
		cfg.Challenge.WaitShare, cfg.Challenge.NoWait = 0, true
		h := newSite(t, cfg)
		spendShared(t, h, middleware.WhenExhausted)
		resp := send(h, submitting(urlencoded, "a=b"))
		require.Equal(t, http429, resp.StatusCode)
		page := bodyOf(t, resp)
		require.Contains(t, page, "too many requests")
		require.Contains(t, page, "Try again in 6")
	})
	t.Run("nothing but work helps", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Challenge.WaitShare, cfg.Challenge.NoWait = 0, true
		page := bodyOf(t, send(newSite(t, cfg), submitting(urlencoded, "a=b")))
		require.Contains(t, page, "<noscript><p>It needs JavaScript for that.</p></noscript>")
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
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		page := bodyOf(t, send(h, submitting(urlencoded, encoded([]pair{{"a", "1"}, {name, "hunter2"}, {"b", "2"}}))))
		fields, secret := fieldsIn(t, page)
		require.Equal(t, []string{name}, secret)
		require.Equal(t, []pair{{"a", "1"}, {name, ""}, {"b", "2"}}, fields)
		require.NotContains(t, page, "hunter2")
	}
	for _, name := range []string{
		"name", "shipping", "opinion", "spinner", "discard", "postcards", "compass", "passenger", "bypass", "csrf_token", "authenticity_token",
		"discount", "account_number", "acc_num", "success", "cc", "utf8", "_method", "description", "hotpot", "wildcard", "é", "123",
	} {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		fields, secret := fieldsIn(t, bodyOf(t, send(h, submitting(urlencoded, encoded([]pair{{name, "x"}})))))
		require.Empty(t, secret, name)
		require.Equal(t, []pair{{name, "x"}}, fields)
	}
	t.Run("one that was left empty is no secret", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		fields, secret := fieldsIn(t, bodyOf(t, send(h, submitting(urlencoded, "new_password=&a=b"))))
		require.Empty(t, secret)
		require.Equal(t, []pair{{"new_password", ""}, {"a", "b"}}, fields)
	})
	t.Run("names of the program's own", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers, func(i *middleware.Interstitial) {
			i.Secret = func(name string) bool { return name == "maiden" }
		}))
		page := bodyOf(t, send(h, submitting(urlencoded, "maiden=Byron&password=x&name=Ada")))
		_, secret := fieldsIn(t, page)
		require.Equal(t, []string{"maiden", "password"}, secret)
		require.NotContains(t, page, "Byron")
	})
	t.Run("a name is escaped in its label too", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		page := bodyOf(t, send(h, submitting(urlencoded, encoded([]pair{{`"><script>password`, "x"}}))))
		_, secret := fieldsIn(t, page)
		require.Equal(t, []string{`"><script>password`}, secret)
		require.Equal(t, 1, strings.Count(page, "<script"))
	})
}

// What cannot be held as it was is not held at all.
func TestFormsThatAreNotHeld(t *testing.T) {
	many := encoded(slices.Repeat([]pair{{"a", "b"}}, 501))
	for name, test := range map[string]struct {
		contentType, body, says string
	}{
		"multipart":               {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\nsecretive\r\n--x--\r\n", "This kind of form"},
		"multipart, no boundary":  {"multipart/form-data", "secretive", "This kind of form"},
		"too long":                {urlencoded, "a=" + strings.Repeat("b", 64<<10-1), "too long"},
		"too many fields":         {urlencoded, many, "too long"},
		"broken escape":           {urlencoded, "a=%4", "cannot keep"},
		"broken escape of a name": {urlencoded, "%zz=1", "cannot keep"},
		"not UTF-8":               {urlencoded, "a=%E9", "cannot keep"},
		"name not UTF-8":          {urlencoded, "%E9=1", "cannot keep"},
		"surrogate":               {urlencoded, "a=%ED%A0%80", "cannot keep"},
		"raw bytes":               {urlencoded, "a=\xff", "cannot keep"},
		"NUL":                     {urlencoded, "a=%00", "cannot keep"},
		"raw NUL":                 {urlencoded, "a=\x00", "cannot keep"},
		"no name":                 {urlencoded, "=b", "cannot keep"},
		"semicolon":               {urlencoded, "a=b;c=d", "cannot keep"},
		"another charset":         {urlencoded + "; charset=iso-8859-1", "a=b", "cannot keep"},
		"a charset within":        {urlencoded, "a=b&_charset_=windows-1252", "cannot keep"},
		"broken parameters":       {urlencoded + "; charset", "a=b", "cannot keep"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newSite(t, keeping(new(clock), middleware.Newcomers))
			resp := send(h, submitting(test.contentType, test.body))
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
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
		require.True(t, held(t, submitting(urlencoded, "a="+strings.Repeat("b", 64<<10-2))))
		require.True(t, held(t, submitting(urlencoded, strings.TrimSuffix(many, "&a=b"))))
		require.True(t, held(t, submitting(urlencoded+"; charset=UTF-8", "a=b&_charset_=UTF-8&&")))
		require.True(t, held(t, submitting(urlencoded, "")))
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
		h := newSite(t, keeping(new(clock), middleware.Newcomers, func(i *middleware.Interstitial) { i.MaxBody = 5 }))
		require.Contains(t, bodyOf(t, send(h, submitting(urlencoded, "a=bcd"))), "<form")
		require.Contains(t, bodyOf(t, send(h, submitting(urlencoded, "a=bcde"))), "too long")
	})
}

// What is no form of a browser gets the page that it would get without.
func TestInterstitialLeavesTheRestAlone(t *testing.T) {
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
			require.Equal(t, bodyOf(t, want), bodyOf(t, got))
			require.Empty(t, got.Header.Values("Content-Security-Policy"))
			own := newSite(t, keeping(new(clock), middleware.Newcomers, func(i *middleware.Interstitial) {
				i.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			}))
			require.Equal(t, http.StatusTeapot, send(own, options...).StatusCode)
		})
	}
	t.Run("programs", func(t *testing.T) {
		h := newSite(t, keeping(new(clock), middleware.Newcomers))
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, submitting(urlencoded, "a=b"), replace("Accept", "*/*"))).Reason)
	})
	t.Run("programs, as Config.Refused", func(t *testing.T) {
		cfg := waiting(new(clock), middleware.Newcomers)
		cfg.Refused = middleware.Interstitial{}
		h := newSite(t, cfg)
		require.Equal(t, middleware.NoToken, problemIn(t, send(h)).Reason)
		require.Equal(t, middleware.NoToken, problemIn(t, send(h, form, replace("Accept", "*/*"))).Reason)
		require.Contains(t, bodyOf(t, send(h, form)), "<form")
	})
	t.Run("refusals that sending again does not change", func(t *testing.T) {
		cfg := keeping(new(clock), middleware.Newcomers)
		cfg.Cost = costOf
		h := newSite(t, cfg)
		own := bought(t, h)
		page := bodyOf(t, send(h, form, costing(100), showing(own)))
		require.Contains(t, page, "This request cannot be served.")
	})
	t.Run("admitted", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		ticket := waitCookieIn(t, send(h, form))
		now.advance(5 * time.Second)
		require.Equal(t, "ok", bodyOf(t, send(h, form, holding(ticket))))
	})
	t.Run("nobody's page", func(t *testing.T) {
		require.Equal(t, http.StatusInternalServerError, send(middleware.Interstitial{}).StatusCode)
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
			server := httptest.NewTLSServer(m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				fields := []pair{{"the query", r.URL.RawQuery}}
				for _, name := range []string{"name", "tag", "message", "password"} {
					r.PostFormValue(name) // parses
					for _, value := range r.PostForm[name] {
						fields = append(fields, pair{name, value})
					}
				}
				got = append(got, fields)
			})))
			defer server.Close()
			client := server.Client()
			var err error
			client.Jar, err = cookiejar.New(nil)
			require.NoError(t, err)
			submit := func(fields []pair) (status int, page string) {
				r, err := http.NewRequest(http.MethodPost, server.URL+"/form?x=1", strings.NewReader(encoded(fields)))
				require.NoError(t, err)
				for name, value := range map[string]string{
					"Accept": "text/html,*/*;q=0.8", "Content-Type": urlencoded, "Origin": server.URL, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate",
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
				now.advance(time.Duration(early) * 5 * time.Second)
			}
			require.Equal(t, http.StatusOK, status(submit(written)))
			require.Equal(t, [][]pair{append([]pair{{"the query", "x=1"}}, written...)}, got)
			require.GreaterOrEqual(t, status(submit(written)), 400, "one in five")
		})
	}
}

func TestThreatsOfTheInterstitial(t *testing.T) {
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
			require.Contains(t, page, "a little work", "the plain page")
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
		require.NotContains(t, bodyOf(t, resp), "Please go back")
	})
	t.Run("T44 the decision reads no body, and the page a bounded part", func(t *testing.T) {
		now := new(clock)
		h := newSite(t, keeping(now, middleware.Newcomers))
		huge := strings.Repeat("a=b&", 1<<20)
		var seen int
		cfg := keeping(now, middleware.Newcomers)
		read := newCounted(huge)
		cfg.OnDecision = func(*http.Request, middleware.Decision) { seen = read.read }
		m := newLimiter(t, cfg).Handler(h.spy)
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
