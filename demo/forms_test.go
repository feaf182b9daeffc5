// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"html"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tallystick/tallystick/middleware"
	"github.com/tallystick/tallystick/pow"
	"github.com/tallystick/tallystick/proof/kit"
)

// How the forms answer, in each way of sending and asking.

const (
	jsonContent = "Content-Type: application/json"
	// What Chromium and Firefox send, in essence.
	likeBrowser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

func TestFormIsAcceptedInEveryEncoding(t *testing.T) {
	var parts bytes.Buffer
	w := multipart.NewWriter(&parts)
	require.NoError(t, w.WriteField("email", "ada@example.org"))
	require.NoError(t, w.Close())

	c := start(t, 1).client(t)
	for name, a := range map[string]answer{
		"urlencoded": c.newsletter(),
		"multipart":  c.do("POST", "/newsletter", parts.String(), "Content-Type: "+w.FormDataContentType()),
		"json":       c.do("POST", "/newsletter", `{"email":"ada@example.org"}`, jsonContent+"; charset=utf-8"),
		"more":       c.do("POST", "/newsletter", `{"email":" ada@example.org ","more":[1]}`, jsonContent),
	} {
		require.Equal(t, http.StatusOK, a.StatusCode, "%s: %s", name, a.body)
		require.Equal(t, "application/json", a.Header.Get("Content-Type"), name)
		require.JSONEq(t, `{"accepted":true}`, a.body, name)
		require.NotEmpty(t, a.Header.Get(middleware.TokenHeader), name)
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"), name)
		require.Equal(t, "tallystick-newsletter", a.Cookies()[0].Name, "of plain HTTP: a Secure one would not be kept")
	}
}

func TestWhatTheClientPrefers(t *testing.T) {
	for accept, html := range map[string]bool{
		likeBrowser:                                 true,
		"Accept: text/html":                         true,
		"Accept: TEXT/HTML":                         true,
		"Accept: application/json":                  false,
		"Accept: application/json;q=0.5, text/html": true,
		"Accept: application/problem+json, */*":     false,
		"Accept: */*":                               false,
	} {
		name, value, _ := strings.Cut(accept, ": ")
		r := &http.Request{Header: http.Header{name: {value}}}
		require.Equal(t, html, wantsHTML(r), accept)
		r.Header.Set("Content-Type", "application/json")
		require.False(t, wantsHTML(r), "a client that sends JSON gets JSON: %s", accept)
	}
	require.False(t, wantsHTML(&http.Request{}), "nothing said")
}

func TestBadInputNamesTheFields(t *testing.T) {
	long := strings.Repeat("é", 101)
	tests := []struct {
		path, body, content string
		fields              []string
	}{
		{"/contact", "", urlencoded, []string{"email", "message", "name"}},
		{"/contact", "", "X-Nothing: no type at all", []string{"email", "message", "name"}},
		{"/contact", "name=+&email=a@b.example&message=x", urlencoded, []string{"name"}},
		{"/contact", "name=" + long + "&email=a@b.example&message=x", urlencoded, []string{"name"}},
		{"/contact", `{"name":"Ada","email":["a"],"message":"x"}`, jsonContent, []string{"email"}},
		{"/newsletter", "email=nonsense", urlencoded, []string{"email"}},
		{"/newsletter", `{}`, jsonContent, []string{"email"}},
		{"/newsletter", `null`, jsonContent, []string{"email"}},
		{"/signup", "", urlencoded, []string{"email", "name", "password"}},
		{"/signup", "name=Ada&email=a@b.example&password=7seven7", urlencoded, []string{"password"}},
		{"/signup", `{"name":"Ada","email":"a@b.example","password":12345678}`, jsonContent, []string{"password"}},
		{"/feedback", "email=a@b.example&message=+", urlencoded, []string{"message"}},
	}
	s := start(t, 1)
	for _, test := range tests {
		c := s.client(t)
		a := c.pay(c.do("POST", test.path, test.body, test.content))
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, "%+v: %s", test, a.body)
		problems := a.details(t).Errors
		require.Len(t, problems, len(test.fields), "%+v", test)
		for _, field := range test.fields {
			require.NotEmpty(t, problems[field], "%+v", test)
		}
	}
}

func TestBadInputInABrowserKeepsWhatWasTyped(t *testing.T) {
	c := start(t, 1).client(t)
	a := c.do("POST", "/contact", `name="><script>&email=nonsense&message=Hello`, urlencoded, likeBrowser)
	require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", a.Header.Get("Content-Type"))
	require.Contains(t, a.body, `value="&#34;&gt;&lt;script&gt;"`)
	require.Contains(t, a.body, `value="nonsense"`)
	require.Contains(t, a.body, ">\nHello</textarea>")
	require.Contains(t, a.body, `id="contact-email-problem">This is not an e-mail address.</p>`)
	require.Equal(t, 1, strings.Count(a.body, "aria-invalid"))
	require.NotContains(t, a.body, "<script>")
}

func TestPasswordIsNeverShownAgain(t *testing.T) {
	c := start(t, 1).client(t)
	for body, content := range map[string]string{
		"name=&email=ada@example.org&password=hush-hush-hush":               urlencoded,
		"name=Ada&email=ada@example.org&password=hush":                      urlencoded,
		`{"name":"","email":"ada@example.org","password":"hush-hush-hush"}`: jsonContent,
	} {
		a := c.pay(c.do("POST", "/signup", body, content, likeBrowser))
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, a.body)
		if content == urlencoded {
			require.Contains(t, a.body, `value="ada@example.org"`)
		}
		require.NotContains(t, a.body, "hush")
	}
}

func TestPasswordKeepsItsSpaces(t *testing.T) {
	c := start(t, 1).client(t)
	a := c.pay(c.do("POST", "/signup", "name=Ada&email=ada@example.org&password=+seven++", urlencoded))
	require.Equal(t, http.StatusOK, a.StatusCode, a.body)
}

func TestRefusedBodies(t *testing.T) {
	c := start(t, 1).client(t)
	for name, test := range map[string]struct {
		body, content string
		status        int
	}{
		"too large":         {"email=" + strings.Repeat("a", maxBody), urlencoded, http.StatusRequestEntityTooLarge},
		"too large as JSON": {`{"email":"` + strings.Repeat("a", maxBody), jsonContent, http.StatusRequestEntityTooLarge},
		"no JSON":           {`{"email":`, jsonContent, http.StatusBadRequest},
		"two values":        {`{"email":"a@b.example"}{}`, jsonContent, http.StatusBadRequest},
		"an array":          {`[]`, jsonContent, http.StatusBadRequest},
		"no boundary":       {"x", "Content-Type: multipart/form-data", http.StatusBadRequest},
		"bad escape":        {"email=%zz", urlencoded, http.StatusBadRequest},
		"another type":      {"a,b", "Content-Type: text/csv", http.StatusUnsupportedMediaType},
		"a type that isn't": {"a,b", "Content-Type: ;;", http.StatusUnsupportedMediaType},
	} {
		a := c.do("POST", "/newsletter", test.body, test.content)
		require.Equal(t, test.status, a.StatusCode, "%s: %s", name, a.body)
		require.NotEmpty(t, a.details(t).Detail, name)
		require.NotEmpty(t, a.Header.Get(middleware.TokenHeader), "%s is charged too", name)
	}
}

func TestPages(t *testing.T) {
	c := start(t, 1).client(t)
	const policy = "default-src 'self'"
	home := c.do("GET", "/forms", "", likeBrowser)
	require.Equal(t, http.StatusOK, home.StatusCode)
	for _, want := range []string{
		`<html lang="en">`, `name="viewport"`, `href="/style.css"`,
		`action="/contact"`, `name="name"`, `name="email"`, `name="message"`, `action="/newsletter"`,
		`action="/signup"`, `action="/feedback"`, `name="password"`, `autocomplete="new-password"`, `minlength="8"`,
		`autocomplete="name"`, `autocomplete="email"`, `<label for="contact-message">`,
	} {
		require.Contains(t, home.body, want)
	}
	for _, inline := range []string{"<script>", "<style", " style=", " onclick=", "javascript:"} {
		require.NotContains(t, home.body, inline)
	}
	require.Empty(t, home.Header.Get("RateLimit"), "reading is free")

	for path, contentType := range map[string]string{
		"/":           "text/html; charset=utf-8",
		"/home.js":    "text/javascript; charset=utf-8",
		"/home.css":   "text/css; charset=utf-8",
		"/forms":      "text/html; charset=utf-8",
		"/accepted":   "text/html; charset=utf-8",
		"/style.css":  "text/css; charset=utf-8",
		"/tallies.js": "text/javascript; charset=utf-8",
		"/icon.svg":   "image/svg+xml",
		"/healthz":    "text/plain; charset=utf-8",
	} {
		a := c.do("GET", path, "")
		require.Equal(t, http.StatusOK, a.StatusCode, path)
		require.Equal(t, contentType, a.Header.Get("Content-Type"), path)
		require.Equal(t, policy, a.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"), path)
	}
	require.Equal(t, http.StatusNotFound, c.do("GET", "/web/", "").StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, c.do("GET", "/contact", "").StatusCode)
	require.Equal(t, policy, c.contact().Header.Get("Content-Security-Policy"))
}

// What the forms are to people whose browser runs no script.

var likeForm = []string{likeBrowser, urlencoded, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"}

// kept returns the fields that the page of a refusal holds.
func (a answer) kept() url.Values {
	kept := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		kept.Add(html.UnescapeString(field[1]), html.UnescapeString(field[2]))
	}
	return kept
}

func TestFormsWorkWithoutJavaScript(t *testing.T) {
	for path, form := range map[string]struct {
		body            string
		free, afterWait int
	}{
		"/contact":  {goodContact, 5, 1},
		"/signup":   {goodSignup, 0, 1},
		"/feedback": {goodFeedback, 0, 4},
	} {
		for _, instances := range []int{1, 3} {
			s := start(t, instances)
			c := s.client(t).withJar()
			for range form.free {
				require.Equal(t, http.StatusSeeOther, c.do("POST", path, form.body, likeForm...).StatusCode)
			}
			for i := range form.afterWait {
				s.seconds.Add(5) // each that is let in brings the next ticket
				refused := c.do("POST", path, form.body, likeForm...)
				if i == 0 {
					require.Contains(t, []int{http.StatusForbidden, http.StatusTooManyRequests}, refused.StatusCode)
					require.Contains(t, refused.body, "Try again in 5 seconds.")
					fields := refused.kept()
					if path == "/signup" {
						require.Contains(t, refused.body, `<input type="password" required autofocus name="password">`)
						require.NotContains(t, refused.body, "correct horse")
						fields.Set("password", "correct horse")
					}
					require.Equal(t, form.body, fields.Encode())
					s.seconds.Add(5)
					refused = c.do("POST", path, fields.Encode(), likeForm...)
				}
				require.Equal(t, http.StatusSeeOther, refused.StatusCode, "%s on %d: %s", path, instances, refused.body)
			}
			require.GreaterOrEqual(t, c.do("POST", path, form.body, likeForm...).StatusCode, 400, "%s on %d, one in five", path, instances)
		}
	}
}

// What the forms that ask for work let through.

const proofRequired = "https://github.com/tallystick/tallystick/blob/main/docs/clients.md#proof-required"

// challenge returns the challenge of a refusal, which must be the same in the
// field and in the body.
func (a answer) challenge(t *testing.T) pow.Challenge {
	t.Helper()
	c, err := pow.ParseHeader(a.Header.Get(middleware.ChallengeHeader))
	require.NoError(t, err, a.body)
	if a.Header.Get("Content-Type") == "application/problem+json" {
		p := a.details(t)
		require.Equal(t, c.Text, p.Challenge)
		require.NotNil(t, p.Work)
		require.Equal(t, c.Work, *p.Work)
		require.Equal(t, int64(c.TTL/time.Second), p.TTL)
	}
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	return c
}

// prove solves the challenge of a refusal: the field to send.
func (a answer) prove(t *testing.T) string {
	t.Helper()
	proof := kit.Must(pow.Solve(t.Context(), a.challenge(t).Text, pow.SolveOptions{}))(t)
	return middleware.ProofHeader + ": " + proof
}

// pay sends again what was refused with a challenge, with the proof. What was
// refused without one, or not at all, comes back as it is.
func (c *client) pay(a answer) answer {
	c.t.Helper()
	if a.Header.Get(middleware.ChallengeHeader) == "" {
		return a
	}
	again := a.Request.Clone(c.t.Context())
	body, err := again.GetBody()
	require.NoError(c.t, err)
	again.Body = body
	again.Header.Set(middleware.ProofHeader, a.prove(c.t)[len(middleware.ProofHeader+": "):])
	return c.send(again)
}

// refusedFor requires a 403 that asks for work, and says why.
func refusedFor(t *testing.T, reason middleware.Reason, a answer) {
	t.Helper()
	require.Equal(t, http.StatusForbidden, a.StatusCode, a.body)
	a.challenge(t)
	p := a.details(t)
	require.Equal(t, proofRequired, p.Type)
	require.Equal(t, reason, p.Reason)
	require.Empty(t, a.Header.Get("Retry-After"), "waiting does not help")
}

func TestCrowd(t *testing.T) {
	o := standard(1)
	o.crowd = 1
	s := startWith(t, o)
	for i := range 6 { // the price doubles with every one, and no cap stops it
		c := s.client(t)
		first := c.signup()
		require.EqualValues(t, cheap<<i, *first.details(t).Work)
		require.Equal(t, http.StatusOK, c.pay(first).StatusCode)
	}
	s.seconds.Add(90 * 60)
	require.EqualValues(t, cheap, *s.client(t).signup().details(t).Work, "all has leaked")
}

func TestWorkFlag(t *testing.T) {
	o := standard(1)
	o.work = 0
	c := startWith(t, o).client(t)
	a := c.feedback()
	refusedFor(t, middleware.NoToken, a)
	require.Zero(t, *a.details(t).Work)
	require.Equal(t, http.StatusOK, c.pay(a).StatusCode)
	require.EqualValues(t, pow.DefaultWork, *c.signup().details(t).Work, "what costs nothing is no limit")

	o.work = 4096
	c = startWith(t, o).client(t)
	for _, a := range []answer{c.signup(), c.feedback()} {
		require.EqualValues(t, 4096, *a.details(t).Work)
	}
}

// The endpoints of the policies, and what browsers are told.

func TestBrowserIsToldWhatToDo(t *testing.T) {
	c := start(t, 1).client(t)
	const notice = "This wants a little work from your browser first."
	forms := c.do("GET", "/forms", "", likeBrowser).body
	require.Equal(t, 3, strings.Count(forms, `/"><noscript>`), "three forms have the element, and say what comes without a script")
	require.Equal(t, 3+3, strings.Count(forms, "<tally-check "), "and three show its states")
	for _, path := range []string{"/signup", "/feedback"} {
		a := c.do("POST", path, "", urlencoded, likeBrowser)
		require.Equal(t, http.StatusForbidden, a.StatusCode)
		require.Equal(t, "text/html; charset=utf-8", a.Header.Get("Content-Type"))
		require.Contains(t, a.body, "<h1>Proof of work required</h1>")
		require.Contains(t, a.body, notice)
	}
}
